// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/seed-141914ff/okara/internal/cli"
	"github.com/seed-141914ff/okara/oci"
)

// maxPassword bounds what --password-stdin reads, in bytes; tokens are a few KiB.
const maxPassword = 64 << 10

type login struct {
	Host     string `json:"host"`
	Username string `json:"username"`
	Stored   string `json:"stored"` // the file or helper that stores it
	Checked  bool   `json:"checked"`
}

func newLogin(reg *cli.Registries) *cobra.Command {
	var username string
	var stdin, check, unchecked bool
	cmd := &cobra.Command{
		Use:   "login HOST",
		Short: "Log in to a registry and store the credentials as Docker does",
		Long: `Store a user name and password, or a token, for a registry. They are stored in the
credential helper of the Docker configuration (credHelpers, credsStore), else in the
Docker configuration file itself, readable only by you. Docker and other tools that read
its configuration then use them as well.

On a terminal okara prompts for what is missing. The credentials are checked with the
registry first, and not stored if it refuses them or does not respond; --no-check skips
this check.`,
		Example: `  okara login ghcr.io --username octocat
  echo "$CR_PAT" | okara login ghcr.io --username octocat --password-stdin`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			host, err := parseHost(args[0])
			if err != nil {
				return err
			}
			c, err := readLogin(reg.App, username, stdin)
			if err != nil {
				return err
			}
			if !unchecked {
				if err := checkLogin(cmd.Context(), reg, host, c); err != nil {
					return err
				}
			}
			where, err := reg.Credentials().Login(cmd.Context(), host, c)
			if err != nil {
				return err
			}
			if err := noteOther(cmd.Context(), reg, host, c); err != nil {
				return err
			}
			return reg.PrintResult(login{host, c.Username, where, !unchecked},
				fmt.Sprintf("logged in to %s as %s, stored in %s", host, c.Username, where))
		},
	}
	f := cmd.Flags()
	f.StringVarP(&username, "username", "u", "", "user `NAME`")
	f.BoolVar(&stdin, "password-stdin", false, "read the password from standard input")
	f.BoolVar(&unchecked, "no-check", false, "store the credentials without checking them with the registry")
	f.BoolVar(&check, "check", true, "") // kept from the time before checking was the default
	f.Lookup("check").Hidden = true
	cmd.MarkFlagsMutuallyExclusive("check", "no-check")
	return cmd
}

func readLogin(a *cli.App, username string, stdin bool) (oci.Credential, error) {
	if stdin {
		if username == "" {
			return oci.Credential{}, cli.UsageError("--password-stdin requires --username")
		}
		b, err := io.ReadAll(io.LimitReader(a.In, maxPassword+1))
		if err != nil {
			return oci.Credential{}, fmt.Errorf("read the password: %w", err)
		}
		if len(b) > maxPassword {
			return oci.Credential{}, cli.UsageError("the password on standard input is longer than %d bytes", maxPassword)
		}
		return checkedLogin(username, strings.TrimRight(string(b), "\r\n"))
	}
	in, ok := a.In.(*os.File)
	if !ok || !cli.IsTerminal(in) {
		return oci.Credential{}, cli.WithHint(cli.UsageError("no password given and standard input is not a terminal"),
			"pipe the password in and add --username NAME --password-stdin")
	}
	if username == "" {
		fmt.Fprint(a.Err, "Username: ")
		line, err := cli.ReadLine(in)
		if err != nil {
			return oci.Credential{}, fmt.Errorf("read the user name: %w", err)
		}
		username = line
	}
	fmt.Fprint(a.Err, "Password: ")
	b, err := term.ReadPassword(int(in.Fd()))
	fmt.Fprintln(a.Err)
	if err != nil {
		return oci.Credential{}, fmt.Errorf("read the password: %w", err)
	}
	return checkedLogin(username, string(b))
}

func checkedLogin(username, password string) (oci.Credential, error) {
	switch {
	case username == "":
		return oci.Credential{}, cli.UsageError("the user name is empty")
	case strings.Contains(username, ":"):
		return oci.Credential{}, cli.UsageError("the user name must not contain a colon")
	case password == "":
		return oci.Credential{}, cli.UsageError("the password is empty")
	}
	return oci.Credential{Username: username, Password: password}, nil
}

func checkLogin(ctx context.Context, reg *cli.Registries, host string, c oci.Credential) error {
	o, err := reg.OCIOptions()
	if err != nil {
		return err
	}
	o.Credential = func(context.Context, string, string) (oci.Credential, error) { return c, nil }
	client, err := oci.New(host, o)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	err = client.Ping(ctx)
	switch {
	case errors.Is(err, oci.ErrUnauthenticated), errors.Is(err, oci.ErrDenied):
		return cli.WithHint(fmt.Errorf("credentials not stored: %w", err), "check the user name and the password; some registries require a token as the password")
	case err != nil:
		return cli.WithHint(fmt.Errorf("credentials not stored: %w", err), "check the registry name, or store the password unchecked with --no-check")
	}
	return nil
}

// noteOther tells the user if another source takes precedence over the stored credential.
func noteOther(ctx context.Context, reg *cli.Registries, host string, c oci.Credential) error {
	got, err := reg.Credentials().Credential(ctx, host, "")
	if err != nil {
		return err
	}
	if got != c {
		reg.Note("note: other credentials for %s take precedence, see `okara auth explain %s`", host, host)
	}
	return nil
}
