// SPDX-License-Identifier: Apache-2.0

package main

import (
	"github.com/spf13/cobra"

	"github.com/seed-141914ff/okara/internal/cli"
)

const rootLong = `okara keeps OpenTofu and Terraform modules, providers and state in any OCI
registry: Harbor, GHCR, ECR, or the one built into this program.

Exit codes:
  0    done
  1    failure
  2    usage, or a file or folder named there does not exist
  3    not found in the registry, on the server or in a list of keys or tokens
  4    conflict, or locked by another client
  5    denied by the registry
  6    partly done
  130  interrupted
The first Ctrl-C or SIGTERM stops okara cleanly, a second one stops it at once:
130, or 143 for SIGTERM.
okara tofu, okara terraform and okara exec return the code of the program they
run; 125 is their own failure, 127 means that the program was not found.

On a terminal, errors and changes are coloured and progress bars are shown; NO_COLOR=1
turns off colours, --quiet turns off progress bars.

"okara completion --help" explains how a shell completes commands and addresses.`

func newRoot(a *cli.App) *cobra.Command {
	reg := cli.NewRegistries(a)
	up := &upstreams{reg: reg}
	root := cli.Parent("okara", "", "OpenTofu and Terraform modules, providers and state in an OCI registry")
	root.Long = rootLong
	root.Version = a.Version
	root.SilenceErrors = true
	root.SilenceUsage = true
	reg.AddFlags(root.PersistentFlags())
	root.AddGroup(&cobra.Group{ID: "artifacts", Title: "Modules and providers:"}, &cobra.Group{ID: "state", Title: "State:"})
	publish := cli.Parent("publish", "artifacts", "Publish modules, providers and related artifacts")
	publish.SuggestFor = []string{"push", "upload"}
	attach := newAttach(reg)
	approve := newApprove(reg)
	prune := newPrune(reg)
	scan := newScan(reg)
	provider, convert, deprecate, yank, sign := newPublishProvider(reg), newConvert(reg), newDeprecate(reg), newYank(reg), newSign(reg)
	publish.AddCommand(newPublishModule(reg), newPublishModules(reg), provider, convert, attach)
	reg.AddDryRun(attach, approve, scan, provider, convert, deprecate, yank, sign)
	depot := newDepot(up)
	depot.AddCommand(approve)
	stored := []*cobra.Command{newList(reg), newShow(reg), newCompare(reg), newPull(reg), newUsedBy(reg), newOutdated(reg), deprecate, yank, sign, newVerify(reg)}
	completeItems(reg, append(stored, attach, approve, prune, scan)...)
	addCommands(root, "artifacts", append(stored, publish, newKeys(a), newBundle(reg), newLock(up), newMirror(up), depot)...)
	addCommands(root, "state", newTofu(reg), newTerraform(reg), newExec(reg), newState(reg))
	root.AddCommand(newWorkspace(reg))
	doctor := newDoctor(reg)
	doctor.AddCommand(newDoctorArtifacts(reg))
	addInstances(root, doctor, reg)
	root.AddGroup(&cobra.Group{ID: "server", Title: "Server and clients:"}, &cobra.Group{ID: "access", Title: "Access:"})
	admin := cli.Parent("admin", "server", "Manage a registry and its servers")
	admin.AddCommand(newAudit(reg), doctor, newGC(a), prune, scan, newToken(a))
	addCommands(root, "server", newServe(up), newCLIConfig(reg), newMCP(reg), admin)
	addCommands(root, "access", newLogin(reg), newLogout(reg), newAuth(reg))
	root.AddCommand(newVersion(a), newMan(a), newDocs(a))
	root.SetOut(a.Out) // completion uses this writer
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	cli.WordUsage(root)
	return root
}

func addCommands(root *cobra.Command, group string, commands ...*cobra.Command) {
	for _, c := range commands {
		c.GroupID = group
		root.AddCommand(c)
	}
}
