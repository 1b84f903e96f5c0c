//go:build unix

package sandboxtest

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"
)

// Forms of what pour writes.
const (
	formBytes = "bytes" // every byte value, no block like the next
	formLine  = "line"  // one line that never ends
)

// pour writes n bytes that both sides know.
func pour(w io.Writer, n int64, form string) error {
	block := bytes.Repeat([]byte("x"), 64<<10)
	for k := 0; n > 0; k++ {
		if form == formBytes {
			for j := range block {
				block[j] = byte(k>>8) ^ byte(k) ^ byte(j>>8) ^ byte(j)
			}
		}
		part := block[:min(n, int64(len(block)))]
		if _, err := w.Write(part); err != nil {
			return err
		}
		n -= int64(len(part))
	}
	return nil
}

// opPour takes the number of the stream, bytes and form.
func opPour(args []string) error {
	n, err := strconv.ParseInt(args[1], 10, 64)
	if err != nil {
		return err
	}
	to := os.Stdout
	if args[0] == "2" {
		to = os.Stderr
	}
	return pour(to, n, args[2])
}

func init() {
	ops["shut"] = opShut
	ops["yes"] = opYes
}

// opShut closes a stream early and lives on.
func opShut(args []string) error {
	switch args[0] {
	case "stdin":
		if err := os.Stdin.Close(); err != nil {
			return err
		}
	case "output":
		fmt.Print("before")
		if err := os.Stdout.Close(); err != nil {
			return err
		}
		if err := os.Stderr.Close(); err != nil {
			return err
		}
	}
	time.Sleep(200 * time.Millisecond)
	os.Exit(3)
	return nil
}

// opYes floods stdout until it is killed.
func opYes([]string) error {
	block := bytes.Repeat([]byte("y\n"), 16<<10)
	for {
		if _, err := os.Stdout.Write(block); err != nil {
			return err
		}
	}
}
