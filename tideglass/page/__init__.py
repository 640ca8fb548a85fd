"""The page of a job: a reader of job directories that answers a browser (`docs/page.md`)."""
