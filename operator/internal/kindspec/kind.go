// SPDX-License-Identifier: Apache-2.0

package kindspec

import (
	"cmp"
	"path"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/seed-141914ff/okara/instances/template"
	"github.com/seed-141914ff/okara/instances/templatesource"
	"github.com/seed-141914ff/okara/oci/artifact"
	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
)

// Group is the API group of generated kinds.
const Group = v1alpha1.KindsGroup

// Version is the one version of each kind.
const Version = v1alpha1.KindsVersion

// Module has a version's inputs, if known, and outputs.
type Module = template.Module

// Described returns the module in a folder of a description; "" is the root.
func Described(d artifact.ModuleDescription, folder string) (Module, error) {
	folder = Folder(folder)
	all := slices.Concat([]artifact.DescribedModule{d.Root}, d.Submodules, d.Examples)
	i := slices.IndexFunc(all, func(m artifact.DescribedModule) bool { return m.Path == folder })
	if i < 0 {
		return Module{}, fieldf("spec.module.path", "the description of the module has no folder %s: it has the root, modules/… and examples/…", folder)
	}
	m := Module{Inputs: all[i].Inputs, Outputs: map[string]bool{}, Refused: templatesource.Refusals(all[i])}
	for _, o := range all[i].Outputs {
		if o.Ephemeral {
			return Module{}, fieldf("spec.module.path", "the output %s is ephemeral, which both tools refuse in a root module, such as that of a kind", o.Name)
		}
		m.Outputs[o.Name] = o.Sensitive
	}
	return m, nil
}

// Folder is a path inside a module in the form of descriptions and runs.
func Folder(p string) string {
	if p = path.Clean(p); p == "." {
		return ""
	}
	return p
}

// Kind is a definition with a version of its module. It never changes.
type Kind struct {
	Definition *v1alpha1.ModuleKind
	Module     Module

	all   map[string]input        // of the module; empty: unknown
	types *translator             // of all
	shown map[string]visibleInput // those that users see
	check *checker
}

// New makes a kind. If that is not possible, the error is a [FieldError].
func New(def *v1alpha1.ModuleKind, m Module) (*Kind, error) {
	k := &Kind{Definition: def, Module: m}
	if err := cmp.Or(k.setInputs(), k.checkOutputs()); err != nil {
		return nil, err
	}
	crd, err := k.buildCRD()
	if err != nil {
		return nil, err
	}
	if k.check, err = newChecker(crd); err != nil {
		return nil, err
	}
	return k, nil
}

// GroupVersionKind is that of the objects.
func (k *Kind) GroupVersionKind() schema.GroupVersionKind { return GroupVersionKind(k.Definition) }

// GroupVersionKind is that of the objects of a definition.
func GroupVersionKind(def *v1alpha1.ModuleKind) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: Group, Version: Version, Kind: def.Spec.Names.Kind}
}

func singularName(def *v1alpha1.ModuleKind) string {
	return cmp.Or(def.Spec.Names.Singular, strings.ToLower(def.Spec.Names.Kind))
}

// checkOutputs checks that the module has the outputs that users get.
func (k *Kind) checkOutputs() error {
	if k.Module.Outputs == nil {
		return nil
	}
	for _, list := range []struct {
		field string
		names []v1alpha1.InputName
	}{{"spec.outputs.include", k.Definition.Spec.Outputs.Include}, {"spec.outputs.status", k.Definition.Spec.Outputs.Status}} {
		for _, name := range list.names {
			sensitive, ok := k.Module.Outputs[string(name)]
			if !ok {
				return fieldf(list.field, "the module has no output %s", name)
			}
			if sensitive && list.field == "spec.outputs.status" {
				return fieldf(list.field, "the output %s is sensitive: a status would show it to every reader of the object", name)
			}
		}
	}
	return nil
}
