"""What a verification found: findings, checks, failures, the report, and what causes what.

May import: artifacts.
"""
