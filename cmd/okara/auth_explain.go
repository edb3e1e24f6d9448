// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-141914ff/okara/credentials"
	"github.com/seed-141914ff/okara/internal/cli"
	"github.com/seed-141914ff/okara/oci"
)

type explanation struct {
	Reference  string                  `json:"reference"`
	Candidates []credentials.Candidate `json:"candidates"`
	Registry   string                  `json:"registry,omitempty"` // the answer of the registry
	Accepted   *bool                   `json:"accepted,omitempty"`
}

func newAuthExplain(reg *cli.Registries) *cobra.Command {
	var offline bool
	cmd := &cobra.Command{
		Use:   "explain REFERENCE",
		Short: "Show which credentials are used for a repository, and why",
		Long: `Show every place where okara looks for credentials for a repository, in order of
precedence: the most specific match wins, and among equals the first source. Secrets are
masked. The chosen credentials are tested against the registry, unless --offline is set;
the result does not change the exit code.`,
		Example: `  okara auth explain ghcr.io/acme/modules/net
  okara auth explain registry.example.com --json`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			t, err := parseTarget(args[0])
			if err != nil {
				return err
			}
			e := explanation{Reference: t.String()}
			if !offline { // first, since what the registry refuses is not used
				e.recordAnswer(askRegistry(cmd.Context(), reg, t))
			}
			if e.Candidates, err = reg.Credentials().Explain(cmd.Context(), t.host, t.repository); err != nil {
				return err
			}
			return reg.PrintResult(e, e.text())
		},
	}
	cmd.Flags().BoolVar(&offline, "offline", false, "do not contact the registry")
	return cmd
}

// askTimeout bounds how long explain and login --check wait for a registry.
const askTimeout = 20 * time.Second

// askRegistry makes a small request with the user's credentials. It asks for a repository
// and not for the root of the API, because some registries refuse everyone at the root.
func askRegistry(ctx context.Context, reg *cli.Registries, t target) error {
	o, err := reg.OCIOptions()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	if t.repository == "" {
		c, err := oci.New(t.host, o)
		if err != nil {
			return err
		}
		return c.Ping(ctx)
	}
	r, err := oci.OpenRepo(t.String(), o)
	if err != nil {
		return err
	}
	if t.ref != "" {
		_, err = r.Resolve(ctx, t.ref)
		return err
	}
	for _, err := range r.Tags(ctx) {
		return err
	}
	return nil
}

// recordAnswer records the registry's answer. A registry looks for a repository only after it
// has accepted the credentials, so a missing repository means accepted credentials.
func (e *explanation) recordAnswer(err error) {
	accepted := err == nil || errors.Is(err, oci.ErrNotFound)
	e.Accepted = &accepted
	switch {
	case err == nil:
		e.Registry = "accepted"
	case accepted:
		e.Registry = "accepted, but " + err.Error()
	default:
		e.Registry = err.Error()
	}
}

func (e explanation) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\n", e.Reference)
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\tMATCH\tSOURCE\tLOCATION\tKEY\tCREDENTIAL\tWHY")
	for _, c := range e.Candidates {
		mark := ""
		if c.Chosen {
			mark = "->"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", mark, cmp.Or(c.Match, "-"), c.Source, c.Location,
			cmp.Or(c.Key, "-"), cmp.Or(shownCredential(c), "-"), c.Reason)
	}
	_ = w.Flush() // a strings.Builder takes everything
	if e.Registry != "" {
		fmt.Fprintf(&b, "\nregistry: %s", e.Registry)
	}
	return strings.TrimRight(b.String(), "\n")
}

func shownCredential(c credentials.Candidate) string {
	var parts []string
	if c.Helper != "" {
		parts = append(parts, "helper "+c.Helper)
	}
	if c.Kind != "" {
		parts = append(parts, strings.TrimSpace(fmt.Sprintf("%s %s %s", c.Kind, c.Username, c.Secret)))
	}
	if c.Expires != nil {
		parts = append(parts, "until "+c.Expires.UTC().Format(time.RFC3339))
	}
	return strings.Join(parts, ", ")
}
