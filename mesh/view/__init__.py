"""A mesh as its control topics show it: the common base of clients and operators."""
