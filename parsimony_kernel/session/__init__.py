"""The parts of a notebook's session: its values, what it tells a run, how answers are taken."""
