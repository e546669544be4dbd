"""A team's tracker: people, projects, labels, issues, comments."""

TITLE = "Millrace Tracker"
