"""What is done beside the lanes, and never through them: holds, repairs, limits."""
