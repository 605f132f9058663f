"""What bounds the steps: budgets, idle time and its causes, SKIP figures, the verdict."""
