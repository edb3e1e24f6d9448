// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-141914ff/okara/internal/cli"
	"github.com/seed-141914ff/okara/oci"
)

func newAuth(reg *cli.Registries) *cobra.Command {
	cmd := cli.Parent("auth", "access", "Explain and convert credentials")
	cmd.AddCommand(newAuthExplain(reg), newAuthEmit(reg), newAuthToken(reg))
	return cmd
}

// target is what a user needs credentials for: HOST[:PORT][/PATH][:TAG|@DIGEST].
type target struct{ host, repository, ref string }

func parseTarget(s string) (target, error) {
	rest := cli.TrimScheme(s)
	if strings.Contains(rest, "://") {
		return target{}, cli.WithHint(cli.UsageError("%q has a scheme", s), "write HOST[:PORT] or HOST[:PORT]/PATH")
	}
	host, path, _ := strings.Cut(rest, "/")
	path, digest, _ := strings.Cut(path, "@")
	name := path
	tag := ""
	if i := strings.LastIndexByte(path, ':'); i >= 0 {
		name = path[:i]
		tag = path[i+1:]
	}
	t := target{host: host, repository: strings.Trim(name, "/"), ref: tag}
	if digest != "" {
		t.ref = digest
	}
	if _, err := oci.New(t.String(), oci.Options{}); err != nil {
		return target{}, cli.UsageError("%w", err)
	}
	return t, nil
}

func (t target) String() string {
	if t.repository == "" {
		return t.host
	}
	return t.host + "/" + t.repository
}

func parseHost(s string) (string, error) {
	t, err := parseTarget(s)
	if err != nil {
		return "", err
	}
	if t.repository != "" || t.ref != "" {
		return "", cli.WithHint(cli.UsageError("%q is not the name of a registry", s), "use HOST[:PORT] without a path")
	}
	return t.host, nil
}

func noCredential(t target) error {
	return cli.WithHint(fmt.Errorf("no credentials for %s: %w", t, oci.ErrNotFound), "log in with `okara login %s`", t.host)
}
