"""What the auditor has written, for whoever asks; and drills, which it must find."""
