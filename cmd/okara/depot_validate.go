// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"github.com/seed-141914ff/okara/internal/text"
	"github.com/spf13/cobra"
)

func newDepotValidate(up *upstreams) *cobra.Command {
	var f depotFlags
	cmd := &cobra.Command{
		Use:     "validate [FILE]",
		Short:   "Check a depot file",
		Example: "  okara depot validate -f depot.hcl",
		RunE: func(*cobra.Command, []string) error {
			set, err := readSet(f.file)
			if err != nil {
				return err
			}
			counts := map[string]int{"modules": len(set.Modules), "providers": len(set.Providers)}
			return up.reg.PrintResult(counts, fmt.Sprintf("%s: %s, %s", f.file, text.Plural(len(set.Modules), "module"), text.Plural(len(set.Providers), "provider")))
		},
	}
	f.addTo(up, cmd)
	return cmd
}
