"""A mesh as its control topics show it: what client and operators both stand on."""
