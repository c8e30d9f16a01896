"""What the objects of a notebook hold, and share, told without running code of theirs."""
