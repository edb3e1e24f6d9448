// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/seed-141914ff/okara/internal/cli"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact/evidence"
)

// maxAttachment bounds an attached document, in bytes.
const maxAttachment = 64 << 20

type attached struct {
	Address string `json:"address"`
	Version string `json:"version"`
	Type    string `json:"type"`
	Digest  string `json:"digest"`
}

func newAttach(reg *cli.Registries) *cobra.Command {
	return &cobra.Command{
		Use:        "attachment ADDRESS[@VERSION] FILE",
		SuggestFor: []string{"attach"},
		Short:      "Attach an SBOM or a provenance statement to a version",
		Long: `Attach an SBOM or a provenance statement to a version of a module or provider, as a
referrer of its manifest. FILE is SPDX, CycloneDX or an in-toto statement, in JSON. The
version itself does not change. Use okara admin scan to create scan reports.

Prints the digest of the attached manifest.

Exit codes: 0 done, 2 usage, 3 version not found, 5 denied.`,
		Example: `  okara publish attachment net/vpc/aws@1.4.0 sbom.spdx.json`,
		Args:    cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			document, mediaType, err := readAttachment(args[1])
			if err != nil {
				return err
			}
			t, err := pickVersion(cmd.Context(), reg, args[0], nil)
			if err != nil {
				return err
			}
			subject, err := t.repo.Resolve(cmd.Context(), t.version.Tag())
			if err != nil {
				return err
			}
			m, err := evidence.AttachReport(cmd.Context(), t.repo, subject, mediaType, document, nil)
			if err != nil {
				return err
			}
			return reg.PrintResult(attached{args[0], t.version.String(), mediaType, m.Digest.String()}, m.Digest.String())
		},
	}
}

func readAttachment(file string) (document []byte, mediaType string, err error) {
	info, err := os.Stat(file)
	if err != nil {
		return nil, "", cli.UsageError("%w", err)
	}
	if info.Size() > maxAttachment {
		return nil, "", fmt.Errorf("%s is %d bytes, the limit is %d: %w", file, info.Size(), maxAttachment, oci.ErrTooLarge)
	}
	if document, err = os.ReadFile(file); err != nil {
		return nil, "", err
	}
	if mediaType, err = evidence.ReportType(document); err != nil {
		return nil, "", cli.UsageError("%s is %w", file, err)
	}
	return document, mediaType, nil
}
