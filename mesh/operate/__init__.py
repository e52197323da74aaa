"""What commands, API and page share: a mesh looked at, explained, repaired and changed."""
