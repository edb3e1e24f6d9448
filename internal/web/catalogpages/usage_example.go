// SPDX-License-Identifier: Apache-2.0

package catalogpages

import (
	"path"
	"strings"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/catalog"
	"github.com/seed-141914ff/okara/internal/description"
	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/internal/trust"
	"github.com/seed-141914ff/okara/internal/web/site"
)

// usageExamples returns examples of how to use items.
type usageExamples struct {
	catalog *catalog.Catalog
	hosts   site.Hosts
}

func (s usageExamples) moduleExamples(r *site.Request, m addr.Module, v addr.Version, mv *catalog.ModuleVersion, below string, by vouched) []site.Example {
	repository := s.hosts.RegistryOf(r) + "/" + mv.Repository
	name := m.Name
	source := s.hosts.Of(r) + "/" + m.String()
	oci := "oci://" + repository + mv.Suffix()
	if below != "" {
		name = path.Base(below)
		source += "//" + below
		oci = "oci://" + repository + "//" + path.Join(strings.TrimPrefix(mv.Suffix(), "//"), below)
	}
	digest := mv.Manifest.Digest.String()
	return []site.Example{
		{
			Title: "From this server", Note: "OpenTofu and Terraform; the version may move within its constraint.",
			Text: description.ModuleBlock(name, source, description.ConstraintFor(v), nil),
		},
		{
			Title: "From the registry, by tag", Note: "OpenTofu 1.10 or later, without this server.",
			Text: description.ModuleBlock(name, oci+"?tag="+v.Tag(), "", nil),
		},
		{
			Title: "From the registry, by digest", Note: "Always exactly these bytes.",
			Text: description.ModuleBlock(name, oci+"?digest="+digest, "", nil),
		},
		{
			Title: "With Flux", Note: "The source of a Terraform or OpenTofu resource on a cluster.",
			Text: "apiVersion: source.toolkit.fluxcd.io/v1\nkind: OCIRepository\nmetadata:\n  name: " + m.Name + "\nspec:\n  interval: 10m\n  url: oci://" + repository +
				"\n  ref:\n    semver: \"" + constraintRange(v) + "\"\n",
		},
		{
			Title: "Across an air gap", Note: "One file for a network without this server; the second line is run there.",
			Text: "okara bundle create " + m.Name + ".tar " + m.String() + "@" + v.String() + "\nokara bundle load " + m.Name + ".tar --registry HOST/PREFIX\n",
		},
		{Title: "On the command line", Note: "Fetch the files.", Text: "okara pull " + m.String() + "@" + v.String() + " DIR\n"},
		verifyExample(m.String()+"@"+v.String(), by),
		{
			Title: "Badge", Note: "Shows the newest version in a README, to users who may read the module here.",
			Text: "[![" + m.String() + "](https://" + s.hosts.Of(r) + "/ui/" + itemPath(m.Item()) + "/badge.svg)](https://" + s.hosts.Of(r) + "/ui/" + itemPath(m.Item()) + ")\n",
		},
	}
}

// constraintRange is constraintFor in the syntax of SemVer ranges.
func constraintRange(v addr.Version) string {
	if v.Prerelease() || v.Edition() {
		return v.String()
	}
	return "^" + v.String()
}

func (s usageExamples) providerExamples(r *site.Request, p addr.Provider, v addr.Version, by vouched) []site.Example {
	source := s.hosts.Of(r) + "/" + p.String()
	if p.Hostname != "" {
		source = p.String()
	}
	all := []site.Example{{
		Title: "Require it", Note: "In the root module.",
		Text: "terraform {\n  required_providers {\n    " + p.Type + " = {\n      source  = " + text.HCL(source) + "\n      version = " + text.HCL(description.ConstraintFor(v)) + "\n    }\n  }\n}\n",
	}}
	if p.Hostname != "" {
		all = append(all, site.Example{
			Title: "Install it from here, with its signatures", Note: "This writes configuration that makes the tools check the keys of its publisher, as with its own registry.",
			Text: "okara cli-config https://" + s.hosts.Of(r) + " --origin " + p.Hostname + "\n",
		}, site.Example{
			Title: "Install it from here, as a mirror", Note: "In the CLI configuration; okara cli-config writes all of it.",
			Text: "provider_installation {\n  network_mirror {\n    url     = " + text.HCL("https://"+s.hosts.Of(r)+"/mirror/") + "\n    include = [" + text.HCL(p.Hostname+"/*/*") + "]\n  }\n}\n",
		})
	}
	all = append(all, s.ociMirror(r, p))
	return append(all,
		site.Example{Title: "Complete the lock file", Note: "With the hashes of all platforms, so no machine has to add any.", Text: "okara lock\n"},
		verifyExample(p.String()+"@"+v.String(), by))
}

// ociMirror returns configuration for OpenTofu to install providers from the registry,
// without this server.
func (s usageExamples) ociMirror(r *site.Request, p addr.Provider) site.Example {
	host := s.hosts.Of(r)
	path := "/" + p.Namespace + "/" + p.Type
	if p.Hostname != "" {
		host = p.Hostname
	}
	repository := s.hosts.RegistryOf(r) + "/" + p.Item().Repository(s.catalog.Layout())
	text := "provider_installation {\n  oci_mirror {\n    repository_template = " + quoteLiteral(strings.TrimSuffix(repository, path)+"/${namespace}/${type}") +
		"\n    include             = [" + text.HCL(host+"/*/*") + "]\n  }\n  direct {\n    exclude = [" + text.HCL(host+"/*/*") + "]\n  }\n}\n"
	if !strings.HasSuffix(repository, path) { // the layout orders the parts differently
		text = "okara cli-config --oci-mirror " + s.hosts.RegistryOf(r) + "\n"
	}
	return site.Example{Title: "Install it from the registry", Note: "OpenTofu 1.10 or later, in its CLI configuration, without this server.", Text: text}
}

// quoteLiteral quotes a text without escaping ${ }.
func quoteLiteral(s string) string { return `"` + s + `"` }

// verifyExample returns the command that verifies the publisher of a version, with the
// key of a signature if one is known.
func verifyExample(version string, by vouched) site.Example {
	example := site.Example{Title: "Verify the publisher", Note: "This version is not signed; its digests can still be verified.", Text: "okara verify " + version + "\n"}
	if by.evidence == nil {
		return example
	}
	for _, sig := range by.evidence.Signatures {
		flag := map[string]string{"cosign": " --cosign-key KEY.pub --require cosign", "OpenPGP": " --openpgp-key KEY.asc --require openpgp"}[sig.Kind]
		if sig.Result == trust.Invalid || flag == "" {
			continue
		}
		example.Note = "With the public key of a publisher that you trust."
		if sig.Key != "" {
			example.Note = "With the public key " + sig.Key + ", from a source that you trust."
		}
		example.Text = "okara verify " + version + flag + "\n"
		return example
	}
	return example
}
