"""Tests of the Core AI room."""
