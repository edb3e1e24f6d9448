// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/seed-141914ff/okara/internal/auditlog"
	"github.com/seed-141914ff/okara/internal/cli"
	"github.com/seed-141914ff/okara/internal/client"
	"github.com/seed-141914ff/okara/internal/text"
)

// maxAudited bounds the records that are kept to print a table or one document.
const maxAudited = 100_000

// maxAuditLine bounds a record in a server's answer, in bytes.
const maxAuditLine = 1 << 20

func newAudit(reg *cli.Registries) *cobra.Command {
	var server cli.ServerFlags
	var decisions, asCSV bool
	q := url.Values{}
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "Show who changed what through the servers of a registry",
		Long: `Show who changed what through the servers (okara serve) of a registry in the last 90
days, newest first. Each server writes its changes to the queue repository once a
minute, encrypted with the state keys if it has any.

They are read from the registry, with the keys in OKARA_STATE_KEYS. With --server, they
are read from a server, which requires a token with admin:*:**; it also keeps the last
5,000 decisions about requests (--decisions).

A time is a day, which --until includes, or a time such as 2026-11-22T12:00:00Z. The
complete record is in the audit_log file of each server.

Exit codes: 0 done, 2 usage, 5 denied.`,
		Example: `  okara admin audit --registry registry.example.com/acme --since 2026-11-01
  okara admin audit --server https://okara.example.com --actor anna --json
  okara admin audit --server https://okara.example.com --decisions --decision denied
  okara admin audit --csv > audit.csv`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cmd.Flags().Visit(func(f *pflag.Flag) {
				if auditFilters()[f.Name] != "" {
					q.Set(f.Name, f.Value.String())
				}
			})
			if decisions {
				q.Set("what", auditlog.WhatDecisions)
			}
			wanted, err := auditlog.ParseQuery(q)
			if err != nil {
				return cli.UsageError("%w", err)
			}
			if asCSV && reg.JSON {
				return cli.UsageError("--csv cannot be combined with --json")
			}
			from, err := openAudit(cmd.Context(), reg, server, wanted, q)
			if err != nil {
				return err
			}
			return printAudit(reg.App, from, asCSV)
		},
	}
	server.Add(cmd.Flags())
	fl := cmd.Flags()
	for name, usage := range auditFilters() {
		fl.String(name, "", usage)
	}
	fl.BoolVar(&decisions, "decisions", false, "show decisions about requests instead of changes (with --server)")
	fl.BoolVar(&asCSV, "csv", false, "print all records as comma-separated values")
	return cmd
}

func auditFilters() map[string]string {
	return map[string]string{
		"actor": "only records of actors with `TEXT` in name, issuer, mode or address", "action": "only records with this `ACTION`, such as publish",
		"kind": "only records of this `KIND`, such as module", "address": "only records of addresses that contain `TEXT`",
		"decision": "only records with this decision: `allowed|denied`", "outcome": "only records with this outcome: `done|refused|failed`", "since": "only records since `TIME`", "until": "only records before this `TIME`",
	}
}

type audited struct {
	Protected  bool `json:"protected"`
	Unreadable int  `json:"unreadable,omitempty"` // parts that do not open with these keys

	decisions bool
	each      func(do func(*auditlog.Entry) error) error
	csv       func(to io.Writer) error
}

func openAudit(ctx context.Context, reg *cli.Registries, s cli.ServerFlags, wanted auditlog.Query, q url.Values) (*audited, error) {
	front, err := cli.OpenFrontEnd(reg, s, nil)
	switch {
	case err != nil:
		return nil, err
	case front != nil:
		a, err := auditOfServer(ctx, front, q)
		return a, listHint(err)
	case wanted.Decisions:
		return nil, cli.WithHint(cli.UsageError("decisions are not in the registry: a server keeps them in memory and in its audit_log file"), "specify the server with --server URL")
	}
	client, layout, err := reg.Client()
	if err != nil {
		return nil, err
	}
	queue, err := client.Repo(layout.QueueRepo())
	if err != nil {
		return nil, err
	}
	o, err := (&cli.KeyFlags{}).StateOptions(reg.App)
	if err != nil {
		return nil, err
	}
	t := auditlog.New(auditlog.Options{Repo: queue, Sealer: o.Sealer, Logger: reg.WarnLogger()})
	if err := t.Read(ctx); err != nil {
		return nil, err
	}
	v := t.View(ctx)
	a := &audited{Protected: v.Protected, Unreadable: v.Unreadable, each: func(do func(*auditlog.Entry) error) error { return t.Each(ctx, wanted, do) }}
	a.csv = func(to io.Writer) error { return auditlog.WriteCSV(to, a.each) }
	return a, nil
}

// auditOfServer asks a server how complete its records are, and requests them only when
// they are needed.
func auditOfServer(ctx context.Context, front *client.Client, q url.Values) (*audited, error) {
	const path = "api/v1/audit"
	a := &audited{decisions: q.Get("what") == auditlog.WhatDecisions}
	if _, err := front.Call(ctx, http.MethodGet, path, q, nil, nil, a); err != nil {
		return nil, err
	}
	open := func(format string) (io.ReadCloser, error) {
		q.Set("format", format)
		return front.Open(ctx, path, q, nil)
	}
	a.csv = func(to io.Writer) error {
		body, err := open("csv")
		if err != nil {
			return err
		}
		defer body.Close()
		_, err = io.Copy(to, body)
		return err
	}
	a.each = func(do func(*auditlog.Entry) error) error {
		body, err := open("jsonl")
		if err != nil {
			return err
		}
		defer body.Close()
		lines := bufio.NewScanner(body)
		lines.Buffer(nil, maxAuditLine)
		for lines.Scan() {
			e := &auditlog.Entry{}
			if err := json.Unmarshal(lines.Bytes(), e); err != nil {
				return fmt.Errorf("the server sent an invalid record: %w", err)
			}
			if err := do(e); err != nil {
				return err
			}
		}
		return lines.Err()
	}
	return a, nil
}

func printAudit(a *cli.App, from *audited, asCSV bool) error {
	if asCSV {
		a.Printed = true
		if err := from.csv(a.Out); err != nil {
			return err
		}
		noteAudit(a, from)
		return nil
	}
	doc := struct {
		*audited
		Records []*auditlog.Entry `json:"records"`
	}{from, []*auditlog.Entry{}}
	err := from.each(func(e *auditlog.Entry) error {
		if len(doc.Records) == maxAudited {
			return cli.WithHint(fmt.Errorf("more than %d records found", maxAudited), "narrow the range with --since and --until, or use --csv")
		}
		doc.Records = append(doc.Records, e)
		return nil
	})
	if err != nil {
		return err
	}
	if err := a.PrintResult(doc, cli.Table(auditTable(doc.Records))); err != nil {
		return err
	}
	noteAudit(a, from)
	return nil
}

// auditWidth is how many columns a row has at most.
const auditWidth = 120

// auditTable returns the records as rows; --json has all their fields. The object, the longest
// cell, gets the columns that the others leave.
func auditTable(all []*auditlog.Entry) [][]string {
	const object = 3
	rows := [][]string{{"TIME", "WHO", "ACTION", "OBJECT", "RESULT"}}
	for _, e := range all {
		rows = append(rows, []string{
			cli.Timestamp(e.Time), text.Clip(e.NameActor(), 24), text.Clip(strings.TrimRight(e.Action+" "+e.Kind, " *"), 22), e.Object(), text.Clip(e.Result(), 8),
		})
	}
	room := auditWidth
	for column := range rows[0] {
		widest := 0
		for _, row := range rows {
			row[column] = cli.OrDash(row[column])
			widest = max(widest, utf8.RuneCountInString(row[column]))
		}
		if column != object {
			room -= widest + len("  ")
		}
	}
	for _, row := range rows {
		row[object] = text.Clip(row[object], room)
	}
	return rows
}

func noteAudit(a *cli.App, from *audited) {
	if from.decisions {
		return
	}
	if !from.Protected {
		a.Note("not protected: without state keys, any account with write access to the queue repository can forge records")
	}
	if from.Unreadable > 0 {
		a.Note("incomplete: %s of the audit log cannot be read with the keys in OKARA_STATE_KEYS", text.Plural(from.Unreadable, "part"))
	}
}
