package exec

func controller(args []string) int { return 0 }
