"""Tests of releases judged on the hub."""
