// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-141914ff/okara/internal/cli"
	"github.com/seed-141914ff/okara/internal/files"
	"github.com/seed-141914ff/okara/internal/rights"
	"github.com/seed-141914ff/okara/internal/statictoken"
)

func newToken(a *cli.App) *cobra.Command {
	token := cli.Parent("token", "", "Create, list and revoke the static tokens of okara serve")
	token.Long = `Create, list and revoke the static tokens of okara serve.

They are in the file of okara serve --token-file, one per line: a name, the hash of the
secret and the rights.`
	token.AddCommand(newTokenNew(a), newTokenList(a), newTokenRevoke(a))
	return token
}

func newTokenNew(a *cli.App) *cobra.Command {
	var file, write string
	var days int
	cmd := &cobra.Command{
		Use:   "new NAME RIGHT...",
		Short: "Create a token for clients of okara serve",
		Long: `Create a token for clients of okara serve and print it. It is shown only once: the
server needs and keeps only its hash.

A right is ACTION:KIND:GLOB, with an action (read, publish or admin; read or write
for states; use, read, approve or admin for instances), a kind (module, provider,
mirror, state, template, instance, or * for the first three) and a glob, in which *
stands for part of a segment and ** for any number of them.

With --token-file the token's line is added to that file. Without it, the line is
printed to stderr.`,
		Example: `  okara admin token new ci 'publish:module:acme/**' 'read:*:**' --token-file tokens
  okara admin token new shop write:state:shop --token-file tokens --days 90 --write shop.token`,
		Args: cobra.MinimumNArgs(2),
		RunE: func(_ *cobra.Command, args []string) error {
			scopes, err := parseScopes(args[1:])
			if err != nil {
				return err
			}
			expires, err := inDays(days)
			if err != nil {
				return err
			}
			text, token, err := statictoken.New(args[0], scopes, expires)
			if err != nil {
				return cli.UsageError("%w", err)
			}
			if err := checkTokenFiles(file, write); err != nil {
				return err
			}
			if err := addToken(a, file, token); err != nil {
				return err
			}
			for _, s := range scopes {
				kind, parts := string(s.Kind), strings.Count(s.Glob, "/")+1
				if least := map[string]int{"module": 3, "provider": 2, "mirror": 3, "template": 2, "instance": 2}[kind]; parts < least && !strings.Contains(s.Glob, "**") {
					a.Note("warning: %s matches no %s; for all of %s write %s:%s:%s/**", s, kind, s.Glob, s.Action, kind, s.Glob)
				}
			}
			if days == 0 {
				a.Note("the token never expires; set an expiry with --days")
			}
			return giveToken(a, write, text, token)
		},
	}
	f := cmd.Flags()
	f.StringVar(&file, "token-file", "", "token `FILE` of okara serve, created if missing")
	f.StringVar(&write, "write", "", "write only the token to `FILE`, with mode 0600, instead of stdout")
	f.IntVar(&days, "days", 0, "days until the token expires; 0: never")
	return cmd
}

// checkTokenFiles refuses files that cannot be written, before a token is in the file of the server and
// its secret nowhere, and one that exists: it may be the tokens of a server.
func checkTokenFiles(file, write string) error {
	if file != "" && filepath.Clean(file) == filepath.Clean(write) {
		return cli.UsageError("--write and --token-file name the same file")
	}
	for _, name := range []string{file, write} {
		if _, err := os.Stat(filepath.Dir(name)); name != "" && err != nil {
			return cli.UsageError("folder %s does not exist", filepath.Dir(name))
		}
	}
	if info, err := os.Stat(write); err == nil && info.Mode().IsRegular() {
		return cli.WithHint(&cli.ExitError{Code: cli.ExitConflict, Err: fmt.Errorf("%s already exists", write)}, "name a new file with --write, or remove this one first")
	}
	return nil
}

func parseScopes(args []string) ([]rights.Scope, error) {
	var scopes []rights.Scope
	for _, arg := range args {
		s, err := rights.ParseScope(arg)
		if err != nil {
			return nil, cli.UsageError("%w", err)
		}
		scopes = append(scopes, s)
	}
	return scopes, nil
}

// inDays is the end of a validity of so many days; the zero time for 0.
func inDays(days int) (time.Time, error) {
	if days < 0 {
		return time.Time{}, cli.UsageError("--days %d must not be negative", days)
	}
	if days == 0 {
		return time.Time{}, nil
	}
	return time.Now().AddDate(0, 0, days).Truncate(time.Second), nil
}

func addToken(a *cli.App, file string, t statictoken.Token) error {
	if file == "" {
		a.Note("add this line to the server's token file:\n%s", t.Line())
		return nil
	}
	err := statictoken.Add(file, t)
	if errors.Is(err, fs.ErrExist) {
		return cli.WithHint(&cli.ExitError{Code: cli.ExitConflict, Err: err}, "choose another name, or revoke the old token first: `okara admin token revoke`")
	}
	if err != nil {
		return cli.UsageError("%w", err)
	}
	return nil
}

type tokenDoc struct {
	Name    string         `json:"name"`
	Token   string         `json:"token,omitempty"`
	SHA256  string         `json:"sha256"`
	Rights  []rights.Scope `json:"rights"`
	Expires *time.Time     `json:"expires,omitempty"`
	Expired bool           `json:"expired"`
}

func tokenOf(t statictoken.Token) tokenDoc {
	doc := tokenDoc{Name: t.ID, SHA256: hex.EncodeToString(t.Hash[:]), Rights: t.Scopes}
	if !t.Expires.IsZero() {
		doc.Expires = &t.Expires
		doc.Expired = !time.Now().Before(t.Expires)
	}
	return doc
}

// giveToken writes the secret to a file, or prints it. The file has no line end: as a key of
// a Kubernetes Secret its content is used unchanged.
func giveToken(a *cli.App, file, text string, t statictoken.Token) error {
	doc := tokenOf(t)
	if file == "" {
		doc.Token = text
		return a.PrintResult(doc, text)
	}
	if err := files.WriteOutput(file, []byte(text), 0o600); err != nil {
		return err
	}
	return a.PrintResult(doc, "")
}

func newTokenList(a *cli.App) *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List the tokens of a token file: names, rights and expiry",
		Example: `  okara admin token list --token-file tokens`,
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if file == "" {
				return cli.UsageError("specify the token file with --token-file")
			}
			tokens, err := statictoken.Read(file)
			if err != nil {
				return cli.UsageError("%w", err)
			}
			docs := []tokenDoc{}
			rows := [][]string{{"NAME", "EXPIRES", "RIGHTS"}}
			for _, t := range tokens {
				doc := tokenOf(t)
				docs = append(docs, doc)
				rows = append(rows, []string{t.ID, tokenEnd(doc), rightsText(t.Scopes)})
			}
			return a.PrintResult(docs, cli.Table(rows))
		},
	}
	cmd.Flags().StringVar(&file, "token-file", "", "token `FILE` of okara serve")
	return cmd
}

func newTokenRevoke(a *cli.App) *cobra.Command {
	var file string
	var yes bool
	cmd := &cobra.Command{
		Use:   "revoke NAME",
		Short: "Revoke a token: a running server refuses it within seconds",
		Long: `Revoke a token of a token file. A running server that reads the file refuses it within
seconds. A comment in place of its line records when it was revoked; the name may be used
again.

Exit codes: 0 done, 2 usage, 3 no such token, 4 it is the only token of the file.`,
		Example: `  okara admin token revoke ci --token-file tokens`,
		Args:    cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if file == "" {
				return cli.UsageError("specify the token file with --token-file")
			}
			if err := a.ConfirmOverwrite(yes, "revoke token "+args[0]+" of "+file); err != nil {
				return err
			}
			err := statictoken.Revoke(file, args[0], time.Now())
			switch {
			case errors.Is(err, statictoken.ErrOnly):
				return cli.WithHint(&cli.ExitError{Code: cli.ExitConflict, Err: fmt.Errorf("token %s: %w", args[0], err)}, "create another token first, with `okara admin token new`")
			case errors.Is(err, fs.ErrNotExist):
				return cli.WithHint(&cli.ExitError{Code: cli.ExitNotFound, Err: err}, "`okara admin token list --token-file %s` shows the names", file)
			case err != nil:
				return err
			}
			return a.PrintResult(struct {
				Revoked string `json:"revoked"`
			}{args[0]}, "revoked "+args[0])
		},
	}
	cmd.Flags().StringVar(&file, "token-file", "", "token `FILE` of okara serve")
	cli.AddYes(cmd.Flags(), &yes)
	return cmd
}

func tokenEnd(t tokenDoc) string {
	switch {
	case t.Expires == nil:
		return "never"
	case t.Expired:
		return "expired"
	}
	return cli.Timestamp(*t.Expires)
}

func rightsText(scopes []rights.Scope) string {
	text := make([]string, len(scopes))
	for i, s := range scopes {
		text[i] = s.String()
	}
	return strings.Join(text, " ")
}
