// SPDX-License-Identifier: Apache-2.0

package runtest

import (
	"flag"
	"fmt"
)

// Parse reads the flags of a command into variables, and returns its arguments. A list of
// strings is a flag that may be given several times.
func Parse(args []string, flags map[string]any) ([]string, error) {
	f := flag.NewFlagSet("", flag.ContinueOnError)
	for name, to := range flags {
		switch to := to.(type) {
		case *string:
			f.StringVar(to, name, "", "")
		case *int:
			f.IntVar(to, name, 0, "")
		case *int64:
			f.Int64Var(to, name, 0, "")
		case *bool:
			f.BoolVar(to, name, false, "")
		case *[]string:
			f.Func(name, "", func(value string) error {
				*to = append(*to, value)
				return nil
			})
		default:
			return nil, fmt.Errorf("flag %s is a %T", name, to)
		}
	}
	err := f.Parse(args)
	return f.Args(), err
}
