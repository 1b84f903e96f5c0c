// Command foundry compiles policies into plans and runs plans. It is the only
// place that wires the rooms together: the compiler never meets the executor
// anywhere else.
package main
