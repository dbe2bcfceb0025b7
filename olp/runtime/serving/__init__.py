"""Serving one request: plan, admission, attempts, and the answer shared by its readers."""
