"""Mock vendor APIs on loopback, so that the real CLIs can be run without a vendor.

``python -m tests.real.vendors --port 0 --log FILE`` prints ``{"port": N}`` and serves until
stopped; ``make_app`` and ``serve`` do the same inside a test's own event loop. The orders a
prompt can carry are listed in ``plan`` and ``stream``; those to fail (``[[QUOTA]]``, …), by vendor.
"""

from .scenario import Recorded, Scenario, State
from .server import make_app, serve

__all__ = ["Recorded", "Scenario", "State", "make_app", "serve"]
