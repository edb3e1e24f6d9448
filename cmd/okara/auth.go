// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-141914ff/okara/credentials"
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

func newAuthEmit(reg *cli.Registries) *cobra.Command {
	return &cobra.Command{
		Use:   "emit REFERENCE",
		Short: "Print the oci_credentials block that gives OpenTofu the same credentials",
		Long: `Print the block for OpenTofu's CLI configuration that selects the credentials used by
okara. A credential helper is only named in the block; any other secret is printed in
plain text, so keep the output out of logs.`,
		Example: `  okara auth emit ghcr.io/acme >> ~/.tofurc`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			t, c, err := findCredential(cmd.Context(), reg, args[0])
			if err != nil {
				return err
			}
			list, err := reg.Credentials().Explain(cmd.Context(), t.host, t.repository)
			if err != nil {
				return err
			}
			b, err := newOCIBlock(t, chosenHelper(list), c)
			if err != nil {
				return err
			}
			return reg.PrintResult(b, b.text())
		},
	}
}

func findCredential(ctx context.Context, reg *cli.Registries, reference string) (target, oci.Credential, error) {
	t, err := parseTarget(reference)
	if err != nil {
		return t, oci.Credential{}, err
	}
	c, err := reg.Credentials().Credential(ctx, t.host, t.repository)
	return t, c, err
}

func chosenHelper(list []credentials.Candidate) string {
	for _, c := range list {
		if c.Chosen {
			return c.Helper
		}
	}
	return ""
}

// ociBlock is one oci_credentials block. OpenTofu requires exactly one of three groups of
// arguments.
type ociBlock struct {
	Label        string `json:"label"`
	Username     string `json:"username,omitempty"`
	Password     string `json:"password,omitempty"`
	AccessToken  string `json:"access_token,omitempty"`
	RefreshToken string `json:"refresh_token,omitempty"`
	Helper       string `json:"docker_credentials_helper,omitempty"`
}

func newOCIBlock(t target, helper string, c oci.Credential) (ociBlock, error) {
	switch {
	case helper != "":
		return ociBlock{Label: t.host, Helper: helper}, nil // OpenTofu allows no path here
	case c.RegistryToken != "":
		return ociBlock{Label: t.String(), AccessToken: c.RegistryToken, RefreshToken: c.IdentityToken}, nil
	case c.IdentityToken != "":
		return ociBlock{}, cli.WithHint(fmt.Errorf("the credential for %s is an identity token, which oci_credentials does not accept on its own", t),
			"store it in a credential helper, and set docker_credentials_helper to the name of the helper")
	case c.Username != "" && c.Password == "":
		return ociBlock{}, fmt.Errorf("the credential for %s has an empty password, which oci_credentials does not accept", t)
	case c.Password != "":
		return ociBlock{Label: t.String(), Username: c.Username, Password: c.Password}, nil
	}
	return ociBlock{}, noCredential(t)
}

func (b ociBlock) text() string {
	var s strings.Builder
	fmt.Fprintf(&s, "oci_credentials %s {\n", strconv.Quote(b.Label))
	line := func(name, value string) { fmt.Fprintf(&s, "  %s = %s\n", name, strconv.Quote(value)) }
	switch {
	case b.Helper != "":
		line("docker_credentials_helper", b.Helper)
	case b.AccessToken != "":
		line("access_token ", b.AccessToken)
		line("refresh_token", b.RefreshToken) // required, even if empty
	default:
		line("username", b.Username)
		line("password", b.Password)
	}
	s.WriteString("}")
	return s.String()
}

func newAuthToken(reg *cli.Registries) *cobra.Command {
	return &cobra.Command{
		Use:   "token HOST",
		Short: "Print a registry credential as one token for TF_TOKEN_... variables",
		Long: `Print the credential for a registry in the single-token form that a server in
pass-through mode forwards to that registry: basic.<base64url of USER:PASSWORD>,
identity.<base64url of an identity token>, or a registry token unchanged. The output is
a secret.`,
		Example: `  export TF_TOKEN_okara_example_com="$(okara auth token ghcr.io)"`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			t, c, err := findCredential(cmd.Context(), reg, args[0])
			if err != nil {
				return err
			}
			if c == (oci.Credential{}) {
				return noCredential(t)
			}
			token := credentials.EncodeToken(c)
			return reg.PrintResult(map[string]string{"token": token}, token)
		},
	}
}
