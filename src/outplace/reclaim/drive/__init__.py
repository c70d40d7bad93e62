"""Tries the suggestions and proves them bit for bit."""
