"""The first sixteen faults of `bench/failover`, told by vendors over HTTP to the real CLIs.

The fakes of `bench/faults.py` do what somebody wrote down. Here nobody says what a CLI does when
its vendor fails: the vendor is a mock (`tests/real/vendors`), the CLI is the real one, `olp serve`
is a process of its own, and what is judged is what an HTTP client got and how often each vendor was
asked.
"""
