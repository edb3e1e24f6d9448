// SPDX-License-Identifier: Apache-2.0

package kindspec_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/archive"
	"github.com/seed-141914ff/okara/internal/description"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/oci/artifact"
	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
	"github.com/seed-141914ff/okara/operator/internal/kindspec"
)

// mustModule returns what okara publish describes of a module in a folder.
func mustModule(t testing.TB, dir fs.FS, folder string) kindspec.Module {
	t.Helper()
	tree := must.Get(archive.List(t.Context(), dir, archive.Options{}))(t)
	v := must.Get(description.NewModule(dir, tree))(t)
	return must.Get(kindspec.Described(v.Describe(addr.ModuleVersion{}, "."), folder))(t)
}

// vpc returns the definition of the example with a change.
func vpc(t testing.TB, change string) *v1alpha1.ModuleKind {
	t.Helper()
	src := must.Get(os.ReadFile("testdata/vpc.yaml"))(t)
	var def v1alpha1.ModuleKind
	for _, text := range []string{string(src), change} {
		must.Succeed(t, yaml.UnmarshalStrict([]byte(text), &def))
	}
	return &def
}

func mustKind(t testing.TB, change string) *kindspec.Kind {
	t.Helper()
	return must.Get(kindspec.New(vpc(t, change), mustModule(t, os.DirFS("testdata/vpc"), "./modules/vpc")))(t)
}

// golden compares objects with a file; OKARA_UPDATE writes it.
func golden[O any](t *testing.T, name string, objects ...O) {
	t.Helper()
	var got bytes.Buffer
	for _, o := range objects {
		b := must.Get(yaml.Marshal(o))(t)
		fmt.Fprintf(&got, "---\n%s", b)
	}
	file := filepath.Join("testdata", name+".golden")
	if os.Getenv("OKARA_UPDATE") != "" {
		must.Succeed(t, os.WriteFile(file, got.Bytes(), 0o644))
	}
	if want := must.Get(os.ReadFile(file))(t); !bytes.Equal(got.Bytes(), want) {
		t.Errorf("%s became\n%s", name, got.Bytes())
	}
}

// TestCRD compares the CRD of the example, which has a variable of each type.
//
// Shows: operator 23 | a definition and an object become a CRD, roles and objects of Flux,
// the same each time: group, account, namespace, interval, labels, whether it destroys, names of
// Secrets
func TestCRD(t *testing.T) { golden(t, "crd", mustKind(t, "").CRD()) }

// TestExample compares the object that users begin with, and checks that it is valid.
func TestExample(t *testing.T) {
	k := mustKind(t, "")
	golden(t, "copy", strings.Split(k.Example(), "\n"))
	o := &unstructured.Unstructured{}
	must.Succeed(t, yaml.Unmarshal([]byte(k.Example()), &o.Object))
	if err := k.Invalid(o).ToAggregate(); err != nil {
		t.Errorf("%v\n%s", err, k.Example())
	}
}

func object(t testing.TB, change string) *unstructured.Unstructured {
	t.Helper()
	o := map[string]any{}
	for _, text := range []string{
		"{apiVersion: apps.okara.dev/v1alpha1, kind: VPC, metadata: {name: prod, namespace: tenant-acme, uid: 0a1b}, spec: {cidr: 10.10.0.0/16, region: eu-central-1}}", change,
	} {
		must.Succeed(t, yaml.Unmarshal([]byte(text), &o))
	}
	b, err := yaml.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	u := &unstructured.Unstructured{}
	b, err = yaml.YAMLToJSON(b)
	if err == nil {
		err = u.UnmarshalJSON(b)
	}
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// TestEphemeralOutput: both tools refuse it in a root module, as a test of templatesource shows.
func TestEphemeralOutput(t *testing.T) {
	d := artifact.ModuleDescription{Root: artifact.DescribedModule{Outputs: []artifact.DescribedOutput{{Name: "a", Ephemeral: true}}}}
	if _, err := kindspec.Described(d, ""); err == nil || !strings.Contains(err.Error(), "the output a is ephemeral") {
		t.Error(err)
	}
}

// TestInvalid checks that an object is refused if its module, or a rule, refuses it.
//
// Shows: operator 25
func TestInvalid(t *testing.T) {
	k := mustKind(t, `{spec: {schema: {immutable: [cidr], validations: [{rule: "isCIDR(self.cidr)", message: "no range of addresses"}]}}}`)
	for change, want := range map[string]string{
		"": "",
		"spec: {cidr: 10.0.0.0/8, region: x, policy: {any: [1, {thing: null}]}, subnets: [{name: a, cidr: b, public: null}], ports: [1, x], peer_keyFrom: {name: a, key: b}}": "",
		"spec: {cidr: 10.0.0.0/8, region: x, zones: null, subnets: null}":                  "",
		"spec: {cidr: ten, region: x}":                                                     "no range of addresses",
		"spec: {cidr: 10, region: x}":                                                      "spec.cidr: Invalid value: \"integer\"",
		"spec: {cidr: 10.0.0.0/8}":                                                         "spec.region: Required value",
		"spec: {cidr: 10.0.0.0/8, region: null}":                                           "spec.region",
		"spec: {cidr: 10.0.0.0/8, region: x, zones: [a, a]}":                               "Duplicate value",
		"spec: {cidr: 10.0.0.0/8, region: x, ports: [1]}":                                  "spec.ports",
		"spec: {cidr: 10.0.0.0/8, region: x, subnets: [{name: a}]}":                        "spec.subnets[0].cidr: Required value",
		"spec: {cidr: 10.0.0.0/8, region: x, subnets: [{name: a, cidr: b, tags: {a: 1}}]}": "spec.subnets[0].tags.a",
		"spec: {cidr: 10.0.0.0/8, region: x, peer_keyFrom: {name: a}}":                     "spec.peer_keyFrom.key: Required value",
		"spec: {cidr: 10.0.0.0/8, region: " + strings.Repeat("x", 4097) + "}":              "Too long",
		"metadata: {name: a.b}":                                                            "a name begins with a letter",
		"metadata: {name: 1a}":                                                             "a name begins with a letter",
		"metadata: {name: " + strings.Repeat("a", 50) + "}":                                "at most 49 characters",
		"spec: {cidr: 10.0.0.0/8, region: x, runOptions: {drift: Never}}":                  "spec.runOptions.drift",
	} {
		got := fmt.Sprint(k.Invalid(object(t, change)).ToAggregate())
		if want == "" && got != "<nil>" || !strings.Contains(got, want) {
			t.Errorf("%.90s: %s", change, got)
		}
	}
}

// TestSchema has a row for each way to write a type.
//
// Shows: operator 25
func TestSchema(t *testing.T) {
	for inline, want := range map[string]string{
		`{type: string, minLength: 1, maxLength: 9, pattern: "^a", format: cidr}`:                                 `{maxLength: 9, minLength: 1, pattern: "^a", format: cidr, type: string}`,
		`{type: string, enum: [a, b], default: a}`:                                                                `{type: string, maxLength: 4096, enum: [a, b], default: a}`,
		`{type: [string, "null"], enum: [a, null]}`:                                                               `{type: string, maxLength: 4096, nullable: true, enum: [a, null]}`,
		`{type: string, const: a}`:                                                                                `{type: string, maxLength: 4096, enum: [a]}`,
		`{type: string, default: ` + strings.Repeat("x", 4097) + `}`:                                              `{type: string, maxLength: 4096}`,
		`{type: integer, minimum: 1, exclusiveMaximum: 9}`:                                                        `{type: integer, minimum: 1, maximum: 9, exclusiveMaximum: true}`,
		`{type: number, exclusiveMinimum: 1, minimum: 3, multipleOf: 3}`:                                          `{type: number, minimum: 3, multipleOf: 3}`,
		`{type: boolean, default: null}`:                                                                          `{type: boolean}`,
		`{type: array, uniqueItems: true, items: {type: boolean}}`:                                                `{type: array, maxItems: 1000, x-kubernetes-list-type: set, items: {type: boolean}}`,
		`{type: array, uniqueItems: true, items: {type: array, maxItems: 1, items: true}}`:                        `{type: array, maxItems: 1000, x-kubernetes-list-type: atomic, items: {type: array, maxItems: 1, items: {x-kubernetes-preserve-unknown-fields: true, nullable: true}}}`,
		`{type: object, additionalProperties: {type: number}}`:                                                    `{type: object, maxProperties: 1000, additionalProperties: {type: number}}`,
		`{type: object, properties: {a: {type: number, default: 1}}, required: [a], additionalProperties: false}`: `{type: object, required: [a], properties: {a: {type: number, default: 1}}}`,
		`{type: object}`:                        `{type: object, x-kubernetes-preserve-unknown-fields: true}`,
		`{}`:                                    `{x-kubernetes-preserve-unknown-fields: true, nullable: true}`,
		`{$ref: "#/$defs/one", description: D}`: `{type: object, description: D, properties: {b: {type: boolean}}}`,
	} {
		k, err := kindspec.New(vpc(t, `{spec: {module: {path: ""}, outputs: {include: [], status: []}, schema: {immutable: [], inline: {$defs: {one: {type: object, properties: {b: {type: boolean}}}}, properties: {x: `+inline+`}}}}}`), kindspec.Module{})
		if err != nil {
			t.Errorf("%.90s: %v", inline, err)
			continue
		}
		var props apiextensions.JSONSchemaProps
		must.Succeed(t, yaml.UnmarshalStrict([]byte(want), &props))
		got, wanted := mustYAML(t, k.CRD().Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"].Properties["x"]), mustYAML(t, props)
		if got != wanted {
			t.Errorf("%.90s became\n%s", inline, got)
		}
	}
}

func mustYAML(t *testing.T, v any) string {
	t.Helper()
	b := must.Get(yaml.Marshal(v))(t)
	return string(b)
}

// TestSchemaInvalid checks that a schema unfit for a kind is refused with its path.
//
// Shows: operator 25
func TestSchemaInvalid(t *testing.T) {
	const top = `
variable "a" { type = string }
variable "s" {
  type      = list(string)
  sensitive = true
  default   = []
}
variable "Upper" { default = 1 }
output "o" { value = 1 }
output "p" {
  value     = 1
  sensitive = true
}
`
	m := mustModule(t, fstest.MapFS{"main.tf": {Data: []byte(top)}}, "")
	inline := func(x string) string {
		return `{spec: {schema: {inline: {properties: {a: ` + x + `}, $defs: {self: {type: array, items: {$ref: "#/$defs/self"}}}}}}}`
	}
	for change, want := range map[string]string{
		`{}`: "inputs.Upper: it cannot be a field",
		`{spec: {schema: {hide: [s]}, values: {Upper: 1}}}`:                                                "",
		`{spec: {schema: {expose: [b]}}}`:                                                                  "spec.schema.expose: no input b",
		`{spec: {schema: {expose: [s]}}}`:                                                                  "inputs.s: a Secret contains a string, but the module expects an array: hide it",
		`{spec: {schema: {hide: [a, s]}, values: {Upper: 1}}}`:                                             "inputs.a: the module requires it",
		`{spec: {schema: {expose: [a]}, values: {b: 1}}}`:                                                  "spec.values.b: the module has no input of this name",
		`{spec: {schema: {expose: [a]}, values: {s: [1]}}}`:                                                "spec.values.s: [0]: Invalid value",
		`{spec: {schema: {expose: [a]}, values: {s: [x]}}}`:                                                "",
		`{spec: {schema: {expose: [a]}, run: {varsFrom: [{secretRef: {name: x}, keys: {s: k}}]}}}`:         "spec.run.varsFrom[0].keys.s: a Secret contains a string",
		`{spec: {schema: {hide: [s]}, run: {varsFrom: [{secretRef: {name: x}, keys: {a: k, Upper: k}}]}}}`: "",
		`{spec: {schema: {expose: [a], immutable: [s]}}}`:                                                  "spec.schema.immutable: no input s that users see",
		`{spec: {schema: {expose: [a], validations: [{rule: self.b == 1}]}}}`:                              "spec.schema.validations[0].rule: compilation failed",
		`{spec: {schema: {expose: [a]}, outputs: {include: [x]}}}`:                                         "spec.outputs.include: the module has no output x",
		`{spec: {schema: {expose: [a]}, outputs: {include: [p], status: [p]}}}`:                            "spec.outputs.status: the output p is sensitive",
		inline(`{type: [string, number]}`):                                                                 "spec.schema.inline.a: multiple types",
		inline(`{type: string, minLength: one}`):                                                           "spec.schema.inline.a: minLength cannot be a string",
		inline(`{type: string, not: {}}`):                                                                  `spec.schema.inline.a: a field of type "string" cannot have "not"`,
		inline(`{oneOf: [{type: string}]}`):                                                                `spec.schema.inline.a: a field of type "" cannot have "oneOf"`,
		inline(`{type: array, items: {type: object, properties: {c: {$ref: "#/$defs/self"}}}}`):            "spec.schema.inline.a[].c[]: $ref to itself: write the type out",
		inline(`{$ref: "https://example.com/s.json"}`):                                                     "only references within this schema are supported",
		inline(`{$ref: "#/$defs/none"}`):                                                                   "type not found",
		inline(`{type: object, properties: {b: {type: string, writeOnly: true}}}`):                         "spec.schema.inline.a.b: only a whole input can be writeOnly",
		inline(`{type: object, required: [b], properties: {}}`):                                            "b is required, but is not a property",
		inline(`{type: string, pattern: "("}`):                                                             "spec.a.pattern",
		inline(`false`):                                                                                    "a schema that accepts nothing",
		inline(`1`):                                                                                        "not a JSON Schema",
		`{spec: {schema: {inline: {properties: {b: {type: string}}}}}}`:                                    "spec.schema.inline.b: the module has no input of this name",
		`{spec: {schema: {inline: 7}}}`:                                                                    "spec.schema.inline: not a JSON Schema of an object",
	} {
		def := vpc(t, `{spec: {module: {path: ""}, outputs: {include: [], status: []}, schema: {immutable: []}}}`)
		must.Succeed(t, yaml.UnmarshalStrict([]byte(change), def))
		_, err := kindspec.New(def, m)
		e, is := errors.AsType[*kindspec.FieldError](err)
		if want == "" && err != nil || want != "" && (!is || !strings.Contains(e.Error(), want)) {
			t.Errorf("%s: %v", change, err)
		}
	}
	if _, err := kindspec.New(vpc(t, ""), kindspec.Module{}); err == nil || !strings.Contains(err.Error(), "publish it again with okara") {
		t.Errorf("no description: %v", err)
	}
	deep := strings.Repeat("{type: array, maxItems: 1, items: ", 40) + "{}" + strings.Repeat("}", 40)
	if _, err := kindspec.New(vpc(t, `{spec: {outputs: {include: [], status: []}, schema: {immutable: [], inline: {properties: {a: `+deep+`}}}}}`), kindspec.Module{}); err == nil || !strings.Contains(err.Error(), "nested deeper than 32") {
		t.Errorf("deep: %v", err)
	}
}

// TestBomb checks that a schema whose references expand to a huge one is refused.
func TestBomb(t *testing.T) {
	var defs strings.Builder
	defs.WriteString(`d0: {type: string}`)
	for i := range 13 {
		fmt.Fprintf(&defs, `, d%d: {type: object, properties: {a: {$ref: "#/$defs/d%d"}, b: {$ref: "#/$defs/d%d"}}}`, i+1, i, i)
	}
	def := vpc(t, `{spec: {outputs: {include: [], status: []}, schema: {immutable: [], inline: {$defs: {`+defs.String()+`}, properties: {a: {$ref: "#/$defs/d13"}}}}}}`)
	if _, err := kindspec.New(def, kindspec.Module{}); err == nil || !strings.Contains(err.Error(), "more than 5000 types") {
		t.Error(err)
	}
}

// TestRoles compares the roles of the example.
//
// Shows: operator 23
func TestRoles(t *testing.T) {
	def := vpc(t, "")
	var all []any
	for _, r := range kindspec.ClusterRoles(def) {
		all = append(all, r)
	}
	role, binding := kindspec.OutputsRole(def, object(t, ""), "prod-outputs", "vpc-prod-okara-plan")
	golden(t, "roles", append(all, role, binding)...)
	def.Spec.Outputs.Readers = nil
	if role, binding := kindspec.OutputsRole(def, object(t, ""), "prod-outputs", ""); role != nil || binding != nil {
		t.Error("a role that nobody has")
	}
}
