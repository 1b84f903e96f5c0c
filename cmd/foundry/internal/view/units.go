package view

import (
	"fmt"
	"strconv"
	"strings"
)

// Dollars writes micro-dollars as dollars: "$3.00", "$0.000125".
func Dollars(micro int64) string {
	s := fmt.Sprintf("%d.%06d", micro/1_000_000, micro%1_000_000)
	for strings.HasSuffix(s, "0") && len(s)-strings.IndexByte(s, '.') > 3 {
		s = s[:len(s)-1]
	}
	return "$" + s
}

// Seconds writes a duration as the policy does: "10m", "1h30m".
func Seconds(n int64) string {
	if n == 0 {
		return "0s"
	}
	var b strings.Builder
	for _, u := range []struct {
		size int64
		name string
	}{{3600, "h"}, {60, "m"}, {1, "s"}} {
		if k := n / u.size; k > 0 {
			fmt.Fprintf(&b, "%d%s", k, u.name)
			n %= u.size
		}
	}
	return b.String()
}

// Bytes writes a size exactly, in the largest binary unit that divides it.
func Bytes(n int64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB"}
	i := 0
	for i < len(units)-1 && n != 0 && n%1024 == 0 {
		n /= 1024
		i++
	}
	return strconv.FormatInt(n, 10) + units[i]
}

// Count groups the digits of a number by three: "4 000 000".
func Count(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + " " + s[i:]
	}
	return s
}
