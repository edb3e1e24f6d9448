// SPDX-License-Identifier: Apache-2.0

package commands

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-141914ff/okara/instances/api"
	"github.com/seed-141914ff/okara/instances/internal/portalclient"
	"github.com/seed-141914ff/okara/instances/internal/span"
	"github.com/seed-141914ff/okara/internal/cli"
	"github.com/seed-141914ff/okara/internal/text"
)

type createFlags struct {
	portalFlags
	body       api.Create
	parameters []string
	ttl        string
	w          waitFlags
}

func newInstanceCreate(reg *cli.Registries) *cobra.Command {
	var f createFlags
	cmd := &cobra.Command{
		Use:   "create TEMPLATE",
		Short: "Launch a template",
		Long: `Launch a template, and print the ID of the instance and its phase. If the template
allows each owner only one instance, that one is printed; if the requested
values differ, the launch is refused.

A parameter is NAME=VALUE. A value that is JSON, such as 3, true or ["a", "b"],
is read as JSON, and any other as text; NAME:=VALUE must be JSON. Secrets do not
belong on a command line: NAME=@FILE takes the text of a file.

` + instanceHelp + `
6 with --wait: it failed, or continues after --timeout.`,
		Example: `  okara instance create sandbox/vpc
  okara instance create sandbox/vpc -p size=large -p cidr=10.1.0.0/16 --ttl 4h --wait
  okara instance create lab/team --owner group:team-a --name demo`,
		Args: cobra.ExactArgs(1),
		RunE: f.withClient(reg, func(ctx context.Context, c *portalclient.Client, args []string) error {
			body, err := f.createRequest(args[0])
			if err == nil {
				err = f.w.checkTimeout()
			}
			if err != nil {
				return err
			}
			instance, status, err := c.Create(ctx, body)
			if err != nil {
				return err
			}
			noteCreated(reg.App, instance, status)
			if !f.w.wait {
				return printInstance(reg.App, instance)
			}
			return f.w.waitUntil(ctx, reg.App, c, instance.ID)
		}),
	}
	cmd.ValidArgsFunction = f.completeTemplates(reg)
	f.addTo(reg, cmd, true)
	fl := cmd.Flags()
	fl.StringArrayVarP(&f.parameters, "parameter", "p", nil, "value of a parameter, `NAME=VALUE`; may be repeated")
	fl.StringVar(&f.body.Name, "name", "", "display `NAME`")
	fl.StringVar(&f.body.Owner, "owner", "", "owner, `KIND:ID`, such as group:team-a; required if several are possible")
	fl.StringVar(&f.ttl, "ttl", "", "lifetime, such as 4h; the template's by default")
	fl.StringVar(&f.body.Version, "version", "", "`VERSION` of the module; by default the newest that the template allows")
	fl.StringVar(&f.body.Reason, "reason", "", "reason `TEXT` for the approver")
	fl.BoolVar(&f.body.Force, "force", false, "ignore quotas (admins only)")
	f.w.addTo(cmd, "it is ready")
	return cmd
}

func (f *createFlags) createRequest(template string) (api.Create, error) {
	body := f.body
	body.Template = template
	var err error
	if strings.Count(template, "/") != 1 {
		return body, cli.UsageError("%q must be NAMESPACE/NAME, as `okara instance template list` shows", template)
	}
	if f.ttl != "" {
		if body.TTL, err = span.Parse(f.ttl); err != nil {
			return body, cli.UsageError("--ttl %w", err)
		}
	}
	body.Parameters, err = parseParameters(f.parameters)
	return body, err
}

// maxParameterFile bounds a file whose content is a value, in bytes.
const maxParameterFile = 8 << 10

// parseParameters reads NAME=VALUE, NAME:=JSON and NAME=@FILE.
func parseParameters(given []string) (map[string]json.RawMessage, error) {
	values := map[string]json.RawMessage{}
	for _, pair := range given {
		name, value, ok := strings.Cut(pair, "=")
		name, typed := strings.CutSuffix(name, ":")
		if !ok || name == "" {
			return nil, cli.UsageError("--parameter %.40q: must be NAME=VALUE", pair)
		}
		if _, twice := values[name]; twice {
			return nil, cli.UsageError("duplicate --parameter %s", name)
		}
		if file, ok := strings.CutPrefix(value, "@"); ok && !typed {
			b, err := cli.ReadLimited(file, maxParameterFile)
			if err != nil {
				return nil, fmt.Errorf("parameter %s: %w", name, err)
			}
			values[name] = quoteJSON(strings.TrimSuffix(string(b), "\n"))
			continue
		}
		valid := json.Valid([]byte(value))
		if typed && !valid {
			return nil, cli.UsageError("--parameter %s: value must be valid JSON", name)
		}
		if valid {
			values[name] = json.RawMessage(value)
		} else {
			values[name] = quoteJSON(value)
		}
	}
	return values, nil
}

func quoteJSON(value string) json.RawMessage {
	b, _ := json.Marshal(value) // a string always encodes
	return b
}

func noteCreated(a *cli.App, instance api.Instance, status int) {
	switch {
	case status == 200:
		a.Note("instance %s of %s already exists", instance.ID, text.Line(instance.Template))
	case status == 202:
		a.Note("instance %s is waiting for approval", instance.ID)
	case beginsLater(instance):
		a.Note("instance %s: lifetime %s, starting when it is ready", instance.ID, cli.Age(time.Duration(instance.TTL)))
	case !instance.ExpiresAt.IsZero():
		a.Note("instance %s ends at %s", instance.ID, cli.Timestamp(instance.ExpiresAt))
	}
}

func newInstanceAdopt(reg *cli.Registries) *cobra.Command {
	var f portalFlags
	var id string
	cmd := &cobra.Command{
		Use:   "adopt REPOSITORY",
		Short: "Recover an instance that the ledger lost",
		Long: `Recover an instance that the ledger lost, for admins: okara admin doctor
instances lists the repositories of such states. The server trusts the last
result that it can decrypt with its state keys, and creates a record of the source,
the template and the parameters that it names. You own the record; use okara
instance transfer to give it to its owner. Normally destroyed instances are
refused.

` + instanceHelp,
		Example: `  okara instance adopt registry.example.com/platform/instances/sandbox/vpc/abcdefgh23`,
		Args:    cobra.ExactArgs(1),
		RunE: f.withClient(reg, func(ctx context.Context, c *portalclient.Client, args []string) error {
			instance, err := c.Adopt(ctx, api.Adopt{Repository: args[0], ID: id})
			if err != nil {
				return err
			}
			return reg.PrintResult(instance, instance.ID)
		}),
	}
	f.addTo(reg, cmd, true)
	cmd.ValidArgsFunction = cobra.NoFileCompletions // a repository is not an instance id
	cmd.Flags().StringVar(&id, "id", "", "instance `ID`, if instances share the repository")
	return cmd
}
