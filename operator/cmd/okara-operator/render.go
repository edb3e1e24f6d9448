// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
	"github.com/seed-141914ff/okara/operator/internal/fluxexec"
)

// maxRuns is the maximum size of a file in bytes. An object in a cluster is smaller.
const maxRuns = 4 << 20

const renderLong = `Print the objects that the operator creates for runs, ModuleKinds, their objects and
Instances. FILE holds YAML documents; - is standard input. No cluster or registry is
contacted, and no Secret is read.

A run, a document without a kind, becomes an OCIRepository and a Terraform, which
tofu-controller applies with its state in okara. You have to create the Secrets that it
names. Delete the Terraform first and wait until it is gone: without its source nothing
is destroyed.

A ModuleKind becomes the CRD and the roles of its kind. Its inputs are those of the module
in the folder of --module, or of spec.schema.inline. An object of such a kind, in the same
or another FILE, becomes what the operator would create for it: its namespace, Secrets
without their values, objects of Flux, and the readers of its outputs. The object is
validated against the schema as by an API server. An Instance, with its Template, becomes
what the operator creates first, with the module of --module. This output is for reading,
and for comparing in a pull request; do not apply it.

Exit codes: 0, 1 for an invalid document, and 2 for an invalid command line.`

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
  outputsSecret: vpc-outputs

  # a kind, and an object of it
  okara-operator render vpcs.yaml prod.yaml --module ./vpc --version 1.4.0@sha256:14f2… \
    --registry registry.example.com/platform --serve https://okara.example.com --cluster prod`

func newRender() *cobra.Command {
	var f renderFlags
	cmd := &cobra.Command{
		Use: "render FILE...", Short: "Print what the operator creates for runs, kinds and their objects", Long: renderLong, Example: renderExample,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usagef("render takes files, or - for standard input")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.check(); err != nil {
				return err
			}
			return f.render(args, cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
	f.addTo(cmd.Flags())
	return cmd
}

// document is one document of a file. A document without a kind is a run.
type document struct {
	at   string // FILE: document N
	kind metav1.TypeMeta
	text []byte
}

func (d document) isKind(kind string) bool {
	return d.kind.Kind == kind && d.kind.APIVersion == v1alpha1.GroupVersion().String()
}

// render prints the objects that all documents become, or none after an error.
func (f *renderFlags) render(files []string, stdin io.Reader, out io.Writer) error {
	var docs []document
	for _, name := range files {
		more, err := readDocuments(name, stdin)
		if err != nil {
			return err
		}
		docs = append(docs, more...)
	}
	if len(docs) == 0 {
		return &hintError{fmt.Errorf("%s contains no document", strings.Join(files, ", ")), "`okara-operator render --help` shows what is rendered"}
	}
	known, err := f.readDefined(docs)
	if err != nil {
		return err
	}
	var all []any
	for _, d := range docs {
		objects, err := f.objects(d, known)
		if err != nil {
			return wrongDocument(d, err)
		}
		all = append(all, objects...)
	}
	return f.print(all, out)
}

// wrongDocument adds the document that an error is about, and a hint.
func wrongDocument(d document, err error) error {
	hint := "`okara-operator render --help` shows a run"
	if e, ok := errors.AsType[*hintError](err); ok {
		hint = e.hint
	} else if d.kind.Kind != "" {
		hint = "`okara-operator render --help` shows how kinds and objects are named"
	}
	return &hintError{fmt.Errorf("%s: %w", d.at, err), hint}
}

func renderRun(text []byte) ([]any, error) {
	var s fluxexec.Spec
	if err := yaml.UnmarshalStrict(text, &s); err != nil {
		return nil, err
	}
	return fluxexec.Build(s)
}

// print prints objects as YAML documents, or as one JSON List.
func (f *renderFlags) print(all []any, out io.Writer) error {
	var b bytes.Buffer
	if f.json {
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false)
		e.SetIndent("", "  ")
		if err := e.Encode(map[string]any{"apiVersion": "v1", "kind": "List", "items": append([]any{}, all...)}); err != nil {
			return err
		}
	}
	for _, o := range all {
		if f.json {
			break
		}
		text, err := yaml.Marshal(o)
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "---\n%s", text)
	}
	_, err := b.WriteTo(out)
	return err
}

func readDocuments(name string, stdin io.Reader) ([]document, error) {
	src, err := readFile(name, stdin)
	if err != nil {
		return nil, err
	}
	var all []document
	docs := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(src)))
	for n := 1; ; n++ {
		text, err := docs.Read()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		d := document{at: fmt.Sprintf("%s: document %d", name, n), text: text}
		if err == nil {
			err = yaml.Unmarshal(text, &d.kind)
		}
		if err != nil {
			return nil, wrongDocument(d, err)
		}
		all = append(all, d)
	}
}

func readFile(name string, stdin io.Reader) ([]byte, error) {
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
		err = fmt.Errorf("%s is larger than %d MiB", name, maxRuns>>20)
	}
	return src, err
}
