"""`python -m olp` is the same program as `olp`."""

from olp.cli.main import main

if __name__ == "__main__":
    main()
