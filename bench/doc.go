// Package bench holds the measurements that compare this program with a peer
// in the same run, and print the ratio. No test asserts their figures.
//
//	go run ./bench/compile        compile time and memory against the floor
//	go run ./bench/local          a chain of local steps against fork+exec
//	go run ./bench/containers     container steps against runc run and ctr run
//	go run ./bench/containers     steps in containers against runc run and ctr run (root)
package bench
