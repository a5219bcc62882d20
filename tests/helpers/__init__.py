"""What several tests share: cases, strategies of hypothesis, doubles, and calls of commands."""
