// SPDX-License-Identifier: Apache-2.0

package main

import (
	"github.com/spf13/cobra"

	"github.com/seed-141914ff/okara/instances"
	"github.com/seed-141914ff/okara/instances/commands"
	"github.com/seed-141914ff/okara/internal/cli"
	"github.com/seed-141914ff/okara/internal/server"
)

// Only this file refers to the instances platform: with other function bodies here okara
// consists of its core alone.

func newExtension() server.Extension { return instances.New() }

// checkEnvironment refuses an environment variable that runs do not take from a workspace.
func checkEnvironment(name string) error { return instances.CheckEnvironment(name) }

// addInstances adds the commands of instances to the tree of okara, and to its command
// "doctor".
func addInstances(root, doctor *cobra.Command, reg *cli.Registries) {
	commands.Add(root, doctor, reg)
}
