// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/cli"
	"github.com/seed-141914ff/okara/internal/netaddr"
)

const cliConfigLong = `Print a CLI configuration that makes stock tofu and terraform use an okara server.

Over plain http, which both tools accept for services named in a host block,
modules, own providers and the workspaces of a cloud block work. The network
mirror needs https: it is printed only for https servers. Both tools ask every
source for the versions of a provider, so without access to the provider's own
host add --no-direct.

For a server without https:// or http://, okara tries https first, then http. If
neither answers, https is assumed. With --oci-mirror and no URL only the block for OpenTofu is
printed, which needs no server; --hostname is then the host of your own providers.`

const cliConfigExample = `  okara cli-config > okara.tfrc && export TF_CLI_CONFIG_FILE=$PWD/okara.tfrc
  okara cli-config okara.example.com --write okara.tfrc
  okara cli-config http://127.0.0.1:8080 --hostname okara.test --write okara.tfrc
  okara cli-config https://okara.example.com --token-file token --write ~/.tofurc
  okara cli-config https://okara.example.com --origin registry.opentofu.org
  okara cli-config https://okara.example.com --oci-mirror registry.example.com/platform`

type cliConfig struct {
	server    *url.URL
	hostname  string // the name of the server in source addresses, if not the one in the URL
	tokenFile string
	origins   []string // hosts whose providers come from /origin/, with their signatures
	ociMirror string   // HOST[/PREFIX] of the registry, for OpenTofu only
	noMirror  bool
	noDirect  bool
	noServer  bool // only the block for --oci-mirror
	write     string
	yes       bool // do not ask before provider_installation is replaced
}

func newCLIConfig(reg *cli.Registries) *cobra.Command {
	var c cliConfig
	cmd := &cobra.Command{
		Use:     "cli-config [URL]",
		Short:   "Print the tofu and terraform CLI configuration for an okara server",
		Long:    cliConfigLong,
		Example: cliConfigExample,
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			server, err := withScheme(cmd.Context(), reg, append(args, "http://127.0.0.1:8080")[0])
			if err != nil {
				return err
			}
			c.server = nil
			c.noServer = len(args) == 0 && c.ociMirror != ""
			return printCLIConfig(reg.App, c, server)
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&c.hostname, "hostname", "", "`HOST` in source addresses, if it differs from that of the URL")
	fl.StringVar(&c.tokenFile, "token-file", "", "`FILE` with the token for the server, - for standard input")
	fl.StringArrayVar(&c.origins, "origin", nil, "`HOST` whose mirrored providers are installed with their author's signature (repeatable)")
	fl.StringVar(&c.ociMirror, "oci-mirror", "", "`HOST[/PREFIX]` of the registry, to let OpenTofu fetch providers directly from it")
	fl.BoolVar(&c.noMirror, "no-mirror", false, "omit the network mirror")
	fl.BoolVar(&c.noDirect, "no-direct", false, "install providers of other hosts only from this server, for machines without internet access")
	fl.StringVar(&c.write, "write", "", "write to `FILE`, readable by the owner only, instead of printing; its other blocks are kept")
	cli.AddYes(fl, &c.yes)
	return cmd
}

func printCLIConfig(a *cli.App, c cliConfig, server string) error {
	var err error
	if c.server, err = parseServer(server); err != nil {
		return err
	}
	c.hostname = cmp.Or(c.hostname, c.server.Host)
	if err := checkHostname(c.hostname); err != nil {
		return err
	}
	token, err := cli.ReadToken(a.In, c.tokenFile)
	if err != nil {
		return err
	}
	text, err := c.render(token)
	if err != nil {
		return err
	}
	if c.write == "" {
		return a.PrintExact(map[string]string{"configuration": text}, strings.TrimSuffix(text, "\n"))
	}
	from := c.server.String()
	if c.noServer {
		from = c.ociMirror
	}
	if err := writeCLIConfig(a, c.write, text, from, c.yes); err != nil {
		return fmt.Errorf("write %s: %w", c.write, err)
	}
	file, err := filepath.Abs(c.write)
	if err != nil {
		return err
	}
	a.Note("to use it: export TF_CLI_CONFIG_FILE=%s", file)
	return nil
}

// probeTimeout bounds each of the two requests of withScheme.
const probeTimeout = 5 * time.Second

// withScheme adds the scheme to the address of a server that has none: the one by which the
// server answers with its discovery document.
func withScheme(ctx context.Context, reg *cli.Registries, server string) (string, error) {
	u, err := netaddr.ParseServer(server)
	if err != nil || strings.Contains(server, "://") {
		return server, nil // parseServer reports the error
	}
	t, err := reg.Transport()
	if err != nil {
		return "", err
	}
	for _, u.Scheme = range []string{"https", "http"} {
		if answersScheme(ctx, t, u) {
			return u.String(), nil
		}
	}
	reg.Note("warning: no response from %s over https or http, assuming https", u.Host)
	u.Scheme = "https"
	return u.String(), nil
}

// answersScheme reports whether a server speaks the scheme of the URL. An untrusted certificate
// counts as an answer.
func answersScheme(ctx context.Context, t http.RoundTripper, server *url.URL) bool {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	at := url.URL{Scheme: server.Scheme, Host: server.Host, Path: "/.well-known/terraform.json"}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), nil)
	if err != nil {
		return false
	}
	resp, err := t.RoundTrip(req)
	if err != nil {
		_, untrusted := errors.AsType[*tls.CertificateVerificationError](err)
		return untrusted
	}
	return resp.Body.Close() == nil
}

// plainURL lists the characters that need no quoting in the configuration.
const plainURL = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789./:-_~[]"

func parseServer(s string) (*url.URL, error) {
	u, err := netaddr.ParseServer(s)
	if err != nil {
		return nil, cli.UsageError("%w", err)
	}
	if u.Scheme == "http" && !netaddr.IsLoopback(u.Host) {
		return nil, cli.WithHint(cli.UsageError("%s: tofu and terraform need https for a server on another machine", s),
			"start okara serve with --tls-cert or --tls-self-signed")
	}
	if first, _, _ := strings.Cut(strings.TrimPrefix(u.Path, "/"), "/"); first == "ui" {
		return nil, cli.UsageError("%s is a page: write the address of okara serve, without the path of a page", s)
	}
	if strings.Trim(u.Host+u.Path, plainURL) != "" {
		return nil, cli.UsageError("invalid server URL %q: only letters, digits and ./:-_~[] are allowed", s)
	}
	return u, nil
}

// checkHostname refuses what the tools refuse in a module source address.
func checkHostname(host string) error {
	if _, err := addr.ParseProvider(host + "/n/t"); err != nil {
		return cli.UsageError("--hostname %q must be a host name, without a scheme", host)
	}
	if !strings.Contains(host, ".") {
		return cli.WithHint(cli.UsageError("%s: tofu and terraform refuse modules from a host name without a dot", host),
			"set --hostname to a name with a dot, or use 127.0.0.1 instead of localhost")
	}
	return nil
}

// anyToken is the token for a server that does not require one.
const anyToken = "anonymous"

// render writes the configuration. Both tools read this syntax; only OpenTofu 1.10 and later
// know oci_mirror.
func (c cliConfig) render(token string) (string, error) {
	var b strings.Builder
	const use = "# Use it with: export TF_CLI_CONFIG_FILE=/path/to/this/file\n"
	if c.noServer {
		b.WriteString("# CLI configuration of tofu for " + c.ociMirror + "\n" + use)
		err := c.installation(&b)
		return b.String(), err
	}
	fmt.Fprintf(&b, "# CLI configuration of tofu and terraform for %s\n%s", c.server, use)
	if c.server.Scheme == "http" || c.server.Path != "" || c.hostname != c.server.Host {
		api := c.server.String() + "/api/v2/"
		fmt.Fprintf(&b, "\nhost %q {\n  services = {\n    \"modules.v1\"   = %q\n    \"providers.v1\" = %q\n    \"tfe.v2\"       = %q\n    \"tfe.v2.1\"     = %q\n    \"tfe.v2.2\"     = %q\n    \"state.v2\"     = %q\n  }\n}\n",
			c.hostname, c.server.String()+"/v1/modules/", c.server.String()+"/v1/providers/", api, api, api, api)
	}
	credentials := func(host string) {
		if token != "" {
			fmt.Fprintf(&b, "\ncredentials %q {\n  token = %q\n}\n", host, token)
		}
	}
	credentials(c.hostname)
	if token == "" && netaddr.IsLoopback(c.server.Hostname()) {
		fmt.Fprintf(&b, "\n# A server on this machine accepts any token, unless it has access rules. The tools\n"+
			"# require one before they list workspaces.\ncredentials %q {\n  token = %q\n}\n", c.hostname, anyToken)
	}
	if c.hostname != c.server.Host { // for the mirror, and for states of okara, the name in the URL counts
		credentials(c.server.Host)
	}
	for _, origin := range c.origins {
		p, err := addr.ParseProvider(origin + "/n/t")
		if err != nil {
			return "", cli.UsageError("--origin: %v", err)
		}
		modules := modulesOf(p.Hostname)
		if token != "" && modules != "" {
			return "", cli.WithHint(cli.UsageError("--origin %s: the tools would send the token to %s too, with requests for modules", p.Hostname, p.Hostname),
				"remove --origin: the network mirror then serves these providers")
		}
		fmt.Fprintf(&b, "\nhost %q {\n  services = {\n%s    \"providers.v1\" = %q\n  }\n}\n",
			p.Hostname, modules, c.server.String()+"/origin/"+p.Hostname+"/v1/providers/")
		credentials(p.Hostname)
	}
	if err := c.installation(&b); err != nil {
		return "", err
	}
	return b.String(), nil
}

// modulesOf keeps the modules service of a public registry, since a host block replaces all
// services that the host itself announces.
func modulesOf(host string) string {
	if host != "registry.opentofu.org" && host != "registry.terraform.io" {
		return ""
	}
	return fmt.Sprintf("    \"modules.v1\"   = %q\n", "https://"+host+"/v1/modules/")
}

// namesHost reports whether there is a host of providers published with okara.
func (c cliConfig) namesHost() bool { return !c.noServer || c.hostname != c.server.Host }

func (c cliConfig) mirrors() bool {
	return c.server.Scheme == "https" && !c.noMirror && len(c.origins) == 0
}

// installation writes the provider_installation block, if it is not empty. Sources are
// tried in this order, and a source without a provider is skipped.
func (c cliConfig) installation(b *strings.Builder) error {
	mirror := c.mirrors()
	if !mirror && c.ociMirror == "" && !c.noDirect {
		return nil
	}
	b.WriteString("\nprovider_installation {\n")
	if c.ociMirror != "" {
		if err := c.ociMirrors(b); err != nil {
			return err
		}
	}
	if mirror {
		fmt.Fprintf(b, "  network_mirror {\n    url     = %q\n    exclude = [%q]\n  }\n", c.server.String()+"/mirror/", c.hostname+"/*/*")
	}
	if c.noDirect && !c.namesHost() {
		b.WriteString("}\n")
	} else if c.noDirect {
		fmt.Fprintf(b, "  direct {\n    include = [%q]\n  }\n}\n", c.hostname+"/*/*")
	} else {
		b.WriteString("  direct {}\n}\n")
	}
	return nil
}

func (c cliConfig) ociMirrors(b *strings.Builder) error {
	host, prefix, err := addr.SplitRegistry(c.ociMirror)
	if err != nil {
		return cli.UsageError("--oci-mirror: %v", err)
	}
	base := host
	if prefix != "" {
		base += "/" + prefix
	}
	fmt.Fprintf(b, "  oci_mirror { # mirrored providers\n    repository_template = \"%s/mirror/${hostname}/${namespace}/${type}\"\n    include             = [\"registry.opentofu.org/*/*\", \"registry.terraform.io/*/*\"]\n  }\n", base)
	if !c.namesHost() {
		return nil
	}
	fmt.Fprintf(b, "  oci_mirror { # providers published with okara\n    repository_template = \"%s/providers/${namespace}/${type}\"\n    include             = [%q]\n  }\n", base, c.hostname+"/*/*")
	return nil
}
