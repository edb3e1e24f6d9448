// SPDX-License-Identifier: Apache-2.0

package main

import (
	"github.com/spf13/cobra"

	"github.com/seed-141914ff/okara/instances/commands"
	"github.com/seed-141914ff/okara/internal/cli"
)

// addInstances adds the commands of instances. The rest of okara's commands do without
// them: with another body here nothing of the tree imports that platform.
func addInstances(root, doctor *cobra.Command, reg *cli.Registries) {
	commands.Add(root, doctor, reg)
}
