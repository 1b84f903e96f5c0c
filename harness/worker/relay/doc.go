// Package relay is `foundry worker relay`: the first process of a container
// that has its provider alone. It starts the agent, and joins every connection
// to an address on the loopback interface to the attempt's broker socket. The
// container has no other way out.
//
// It knows no provider, no token and no limit: all that is decided at the other
// end of the socket, by the broker.
//
// It imports the standard library alone.
package relay
