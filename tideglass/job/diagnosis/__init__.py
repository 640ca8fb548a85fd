"""Why a job has no output: what is known of it, the causes, and what they find."""
