// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/seed-141914ff/okara/operator/internal/fluxexec"
)

// maxRuns bounds a file of runs, in bytes. One object of a cluster has less.
const maxRuns = 4 << 20

const renderLong = `Print what Flux needs to run modules of a registry: for each run an OCIRepository
and a Terraform, which tofu-controller applies with its state in okara. FILE has runs
as YAML documents; - is standard input. No cluster and no registry is asked.

The Secrets that a run names are yours to make. Delete the Terraform first and wait
until it is gone: without its source nothing is destroyed.`

const renderExample = `  okara-operator render run.yaml | kubectl apply -f -

  # run.yaml
  namespace: team-a
  name: vpc
  module:
    repository: registry.example.com/platform/modules/net/vpc/aws
    digest: sha256:14f2…
    pullSecret: registry
  variables: {cidr: 10.10.0.0/16}
  state: {address: https://okara.example.com/state/team-a/vpc, tokenSecret: okara}
  outputsSecret: vpc-outputs`

func newRender() *cobra.Command {
	return &cobra.Command{
		Use: "render FILE", Short: "Print the objects of Flux that run a module", Long: renderLong, Example: renderExample,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usagef("render takes one file, or - for standard input")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return render(args[0], cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
}

// render prints the objects of all runs of a file, or none.
func render(name string, stdin io.Reader, out io.Writer) error {
	src, err := readRuns(name, stdin)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	docs := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(src)))
	for n := 1; ; n++ {
		doc, err := docs.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			err = renderRun(&b, doc)
		}
		if err != nil {
			return &hintError{fmt.Errorf("%s: run %d: %w", name, n, err), "`okara-operator render --help` shows a run"}
		}
	}
	_, err = b.WriteTo(out)
	return err
}

func renderRun(b *bytes.Buffer, doc []byte) error {
	var s fluxexec.Spec
	if err := yaml.UnmarshalStrict(doc, &s); err != nil {
		return err
	}
	objects, err := fluxexec.Build(s)
	if err != nil {
		return err
	}
	for _, o := range objects {
		text, err := yaml.Marshal(o)
		if err != nil {
			return err
		}
		fmt.Fprintf(b, "---\n%s", text)
	}
	return nil
}

func readRuns(name string, stdin io.Reader) ([]byte, error) {
	from := stdin
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		from = f
	}
	src, err := io.ReadAll(io.LimitReader(from, maxRuns+1))
	if err == nil && len(src) > maxRuns {
		err = fmt.Errorf("%s has more than %d MiB", name, maxRuns>>20)
	}
	return src, err
}
