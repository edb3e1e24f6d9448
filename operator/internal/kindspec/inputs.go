// SPDX-License-Identifier: Apache-2.0

package kindspec

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
	"github.com/seed-141914ff/okara/operator/internal/fluxexec"
	"github.com/seed-141914ff/okara/operator/internal/fluxrun"
	"github.com/seed-141914ff/okara/operator/internal/kindrun"
)

// configKey is the key of a Secret with a configuration of OpenTofu's encryption.
const configKey = "config"

// Use is okara.dev/use of a Secret that a definition's objects may use.
func Use(def *v1alpha1.ModuleKind) string { return "input:" + def.Spec.Names.Plural }

// filler fills in the inputs of a run.
type filler struct {
	*kindrun.Wanted
	def       *v1alpha1.ModuleKind
	o         *unstructured.Unstructured
	namespace string // of the operator
}

// fillInputs sets the inputs: those of the object, overridden by those of the definition. Of two
// Secrets for one input the last wins, and Secrets win over values.
func (f *filler) fillInputs() error {
	if err := f.ofObject(); err != nil {
		return err
	}
	for input, value := range f.def.Spec.Values {
		f.Run.Variables[input] = value.Raw
	}
	for i, from := range f.def.Spec.Run.VarsFrom {
		keys := map[string]string{}
		for input, key := range from.Keys {
			keys[input] = string(key)
		}
		f.secret(fmt.Sprintf("vars-%d", i), types.NamespacedName{Namespace: f.namespace, Name: from.SecretRef.Name}, keys)
	}
	if e := f.def.Spec.Run.Encryption; e != nil {
		name := f.copy("encryption", types.NamespacedName{Namespace: f.namespace, Name: e.SecretRef.Name}, []string{configKey})
		f.Run.Encryption = &fluxexec.SecretKey{Secret: name, Key: configKey}
	}
	return nil
}

// ofObject sets the object's inputs; null is absent.
func (f *filler) ofObject() error {
	f.Run.Variables = map[string]json.RawMessage{}
	spec, _, err := unstructured.NestedMap(f.o.Object, "spec")
	if err != nil {
		return fieldf("spec", "%v", err)
	}
	for _, field := range slices.Sorted(maps.Keys(spec)) {
		input, secret := strings.CutSuffix(field, "From") // no input that users see has a capital letter
		switch {
		case spec[field] == nil, field == RunField:
		case !secret:
			if f.Run.Variables[field], err = json.Marshal(spec[field]); err != nil {
				return fieldf("spec."+field, "%v", err)
			}
		default:
			if _, set := f.def.Spec.Values[input]; !set {
				from := types.NamespacedName{Namespace: f.o.GetNamespace(), Name: stringOf(spec[field], "name")}
				f.secret(strings.ReplaceAll(input, "_", "-")+"-input", from, map[string]string{input: stringOf(spec[field], "key")})
			}
		}
	}
	return nil
}

func (f *filler) secret(what string, from types.NamespacedName, keys map[string]string) {
	name := f.copy(what, from, slices.Compact(slices.Sorted(maps.Values(keys))))
	f.Run.VariablesFrom = append(f.Run.VariablesFrom, fluxexec.VariablesFrom{Secret: name, Keys: keys})
}

// copy adds a copy of keys of a Secret to the run, and returns the name of the copy.
func (f *filler) copy(what string, from types.NamespacedName, keys []string) string {
	name := f.def.Spec.Run.Prefix + f.o.GetName() + "-okara-" + what
	f.Copies = append(f.Copies, fluxrun.Copy{From: from, Use: Use(f.def), Name: name, Keys: keys})
	return name
}

// stringOf is a string field of an object, "" if it is absent.
func stringOf(of any, key string) string {
	m, _ := of.(map[string]any)
	s, _ := m[key].(string)
	return s
}
