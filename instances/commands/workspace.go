// SPDX-License-Identifier: Apache-2.0

package commands

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-141914ff/okara/instances/internal/workspaceclient"
	"github.com/seed-141914ff/okara/internal/cli"
	"github.com/seed-141914ff/okara/internal/client"
	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/oci"
)

const workspaceHelp = `Exit codes: 0 done, 2 usage, 3 there is no such workspace, 4 it is there already, is
locked or has resources, 5 denied.`

// newWorkspace groups what people do with workspaces of a cloud block.
func newWorkspace(reg *cli.Registries) *cobra.Command {
	cmd := cli.Parent("workspace", "state", "Make, list and delete the workspaces of a cloud block")
	cmd.Long = `Make, list and delete the workspaces that a cloud block or backend "remote" uses on
a server (okara serve).

ORGANIZATION is the organization of that block, and the NAME of /state/NAME. The
server is asked, since it knows who may do what: the one that --server or
OKARA_SERVER names, with the token of --token-file or OKARA_TOKEN, else the one that
` + "`tofu login`" + ` got there. "okara state" does without a server, and knows no tags.`
	cmd.AddCommand(newWorkspaceList(reg), newWorkspaceCreate(reg), newWorkspaceDelete(reg))
	return cmd
}

// workspaceFlags name the server of workspaces.
type workspaceFlags struct{ server cli.ServerFlags }

// Add gives a command the flags, and completes its first argument: an organization,
// or with whole a workspace of one.
func (f *workspaceFlags) add(reg *cli.Registries, cmd *cobra.Command, whole bool) {
	fl := cmd.Flags()
	fl.StringVar(&f.server.URL, "server", "", "the server at this `URL` (OKARA_SERVER)")
	fl.StringVar(&f.server.TokenFile, "token-file", "", "`FILE` with the token for it, - for standard input (or the variable OKARA_TOKEN)")
	fl.StringVar(&f.server.Audience, "audience", "", "`NAME` that the server expects in the token of a GitHub job; its URL by default")
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), cli.CompleteTimeout)
		defer cancel()
		return f.complete(ctx, reg, word, whole)
	}
}

// open returns the client of the server.
func (f *workspaceFlags) open(reg *cli.Registries) (*workspaceclient.Client, error) {
	front, err := cli.OpenFrontEnd(reg, f.server, nil)
	if err != nil {
		return nil, err
	}
	if front == nil {
		return nil, cli.WithHint(cli.UsageError("no server is named"), "set OKARA_SERVER, or add --server https://okara.example.com")
	}
	return &workspaceclient.Client{Front: front}, nil
}

// complete asks the server for words. What fails completes nothing, and says nothing.
func (f *workspaceFlags) complete(ctx context.Context, reg *cli.Registries, word string, whole bool) ([]string, cobra.ShellCompDirective) {
	c, err := f.open(reg)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var words []string
	directive := cobra.ShellCompDirectiveNoFileComp
	if organization, _, named := strings.Cut(word, "/"); named && whole {
		all, _ := c.List(ctx, organization, workspaceclient.Filter{})
		for _, w := range all {
			words = append(words, text.Line(organization+"/"+w.Name))
		}
	} else {
		words, _ = c.Organizations(ctx)
		for i := range words {
			if words[i] = text.Line(words[i]); whole {
				words[i] += "/"
				directive |= cobra.ShellCompDirectiveNoSpace
			}
		}
	}
	return slices.DeleteFunc(words, func(one string) bool { return !strings.HasPrefix(one, word) }), directive
}

// workspaceError adds what helps, and the exit code, to what the server refused.
func workspaceError(err error) error {
	if errors.Is(err, workspaceclient.ErrName) {
		return cli.UsageError("%w", err)
	}
	e, ok := errors.AsType[*client.Error](err)
	switch {
	case !ok:
		return err
	case e.Status == http.StatusUnprocessableEntity:
		return &cli.ExitError{Code: cli.ExitUsage, Err: err}
	case errors.Is(err, oci.ErrUnauthenticated):
		return cli.WithHint(err, "log in with `tofu login HOST`, or give a token with --token-file FILE or OKARA_TOKEN")
	case errors.Is(err, oci.ErrDenied):
		return cli.WithHint(err, "the token is valid, and its rights do not include this: it takes write:state:ORGANIZATION/WORKSPACE, or read")
	case errors.Is(err, oci.ErrNotFound):
		return cli.WithHint(err, "`okara workspace list ORGANIZATION` shows those that you may read; is this the address of `okara serve`?")
	}
	return err
}
