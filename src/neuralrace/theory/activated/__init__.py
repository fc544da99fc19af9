"""Networks with activations, followed as they are: the flow of fresh draws from the law of the weights."""
