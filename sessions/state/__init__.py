"""What a journal says, folded: one fold for lists, reports and screens."""
