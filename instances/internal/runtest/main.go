// SPDX-License-Identifier: Apache-2.0

package runtest

import (
	"fmt"
	"os"
	"testing"
)

// Main is the TestMain of a package whose tests start the test program again: with the name
// of a command as its first argument it runs that command, otherwise the tests.
func Main(m *testing.M, commands map[string]func(args []string) error) {
	if len(os.Args) > 1 {
		if do, ok := commands[os.Args[1]]; ok {
			if err := do(os.Args[2:]); err != nil {
				fmt.Fprintln(os.Stderr, "error:", err)
				os.Exit(1)
			}
			os.Exit(0)
		}
	}
	os.Exit(m.Run())
}
