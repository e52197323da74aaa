"""What the auditor has written, for those who ask; and drills, which it must find."""
