"""Roles on trees as operators ask about them."""
