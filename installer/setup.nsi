; Upreel's setup for one user, without administrator rights. Made by build_setup.py, which gives the
; names in capitals below; setup_lib.nsh has the functions, setup_text.nsh the words.
;
; Switches (each may be quoted as a whole or behind the "="):
;   /S              asks nothing and shows nothing
;   /DIR=FOLDER     where to; may hold spaces and any letters
;   /UPDATE         asks nothing, shows the progress, waits for Upreel to end, starts it again
;   /CLOSE          with /S: asks a running Upreel to close, as its window's X does
;   /WAIT=SECONDS   with /S: how long to wait for it to end; 10
;   /RUN            with /S: starts Upreel when all is done
;   /STARTMENU=0|1 /DESKTOP=0|1 /OPENWITH=0|1   components; as they were, at first 1 0 1
;   /LANG=en|zh     language of the pages; as Windows'
; of uninstall.exe: /S, /CLOSE, /WAIT, /LANG, and
;   /PURGE          with /S: models, NVIDIA runtimes, settings and unfinished jobs go too
;
; Exit statuses: 0 done, 1 cancelled, 2 the setup is damaged or was stopped, 10 Upreel is running,
; 11 the folder holds other files, 12 too little space, 13 the folder cannot be written, 14 no usable
; path, 15 another setup is running, 16 Windows is too old, 17 a file could not be replaced or removed
;
; How it goes: everything is unpacked into ~upreel-new below the folder; then the files of the version
; before are moved to ~upreel-old and the new ones to their places. When anything fails, all is moved
; back: a version that worked goes on working. What a version has installed stands in uninstall.files
; (+folder =file -folder, a line each); no other file of the folder is ever touched.

Unicode true
Target amd64-unicode
RequestExecutionLevel user
ManifestSupportedOS Win10
ManifestDPIAware true
ManifestLongPathAware true
CRCCheck force
AllowSkipFiles off
SetOverwrite on
!ifdef FAST
  SetCompressor /FINAL zlib
!else
  SetCompressor /FINAL /SOLID lzma
  SetCompressorDictSize 64
!endif

!include MUI2.nsh
!include FileFunc.nsh
!include LogicLib.nsh
!include nsDialogs.nsh
!include Sections.nsh
!include WinVer.nsh
!include x64.nsh

!define LIST "uninstall.files"
!define UNINSTALLER "uninstall.exe" ; the program looks for unins*.exe
!define NEW "~upreel-new"
!define OLD "~upreel-old"
!define UNINSTALL_KEY "Software\Microsoft\Windows\CurrentVersion\Uninstall\Upreel"
!define CLASSES "Software\Classes"
!define GPU_KEY "Software\Microsoft\DirectX\UserGpuPreferences"
!define OLDEST_BUILD 17763 ; Windows 10 1809, as Qt needs

Name "Upreel"
Caption "$(CAPTION)"
UninstallCaption "$(UNCAPTION)"
BrandingText "Upreel ${VERSION}"
OutFile "${OUTFILE}"
InstallDir "$LOCALAPPDATA\Programs\Upreel"
InstallDirRegKey HKCU "${UNINSTALL_KEY}" "InstallLocation"
ShowInstDetails hide
ShowUninstDetails hide
!ifdef SIGN
  !uninstfinalize '${SIGN} "%1"' = 0
!endif

ReserveFile "${FILES}" ; in front of the payload, or that would be unpacked to get at it

Var Folder     ; where EnsureClosed and LookForPrograms look
Var From       ; of MoveListed
Var To
Var ListFile   ; of MoveListed and DeleteListed
Var Failed     ; a file that could not be moved or removed
Var Status     ; exit status of what went wrong; 0
Var Problem    ; the same, in words
Var Mode       ; "ask", "silent" or "update"
Var AsksToClose
Var Wait       ; s
Var RunsAfter
Var Purges
Var Before     ; folder of the version that is installed, or nothing
Var VersionBefore
Var Phase      ; how far the files are: 0, unpacking 1, old ones away 2, new ones in 3, done 4
Var IsFresh    ; nothing of ours was in the folder
Var WantsStartMenu
Var WantsDesktop
Var WantsOpenWith
Var Boxes      ; of the uninstaller's page
Var ModelsBox
Var RuntimesBox
Var SettingsBox

!define MUI_ICON "${ICON}"
!define MUI_UNICON "${ICON}"
!define MUI_HEADERIMAGE
!define MUI_HEADERIMAGE_RIGHT
!define MUI_HEADERIMAGE_BITMAP "${PICTURES}/header.bmp"
!define MUI_HEADERIMAGE_BITMAP_STRETCH AspectFitHeight
!define MUI_HEADERIMAGE_UNBITMAP "${PICTURES}/header.bmp"
!define MUI_HEADERIMAGE_UNBITMAP_STRETCH AspectFitHeight
!define MUI_WELCOMEFINISHPAGE_BITMAP "${PICTURES}/side.bmp"
!define MUI_UNWELCOMEFINISHPAGE_BITMAP "${PICTURES}/side.bmp"
!define MUI_ABORTWARNING
!define MUI_COMPONENTSPAGE_SMALLDESC

!macro SKIPPED_IN_UPDATE
  !define MUI_PAGE_CUSTOMFUNCTION_PRE SkipInUpdate
!macroend

!insertmacro SKIPPED_IN_UPDATE
!define MUI_WELCOMEPAGE_TITLE "$(WELCOME_TITLE)"
!define MUI_WELCOMEPAGE_TEXT "$(WELCOME_TEXT)"
!insertmacro MUI_PAGE_WELCOME
!insertmacro SKIPPED_IN_UPDATE
!define MUI_PAGE_HEADER_TEXT "$(LICENCE_TITLE)"
!define MUI_PAGE_HEADER_SUBTEXT "$(LICENCE_SUBTEXT)"
!define MUI_LICENSEPAGE_TEXT_TOP "$(LICENCE_TOP)"
!define MUI_LICENSEPAGE_TEXT_BOTTOM "$(LICENCE_BOTTOM)"
!define MUI_LICENSEPAGE_BUTTON "$(LICENCE_BUTTON)"
!insertmacro MUI_PAGE_LICENSE "$(LICENCE_FILE)"
!insertmacro SKIPPED_IN_UPDATE
!insertmacro MUI_PAGE_COMPONENTS
!insertmacro SKIPPED_IN_UPDATE
!define MUI_PAGE_CUSTOMFUNCTION_LEAVE LeaveFolderPage
!insertmacro MUI_PAGE_DIRECTORY
!insertmacro MUI_PAGE_INSTFILES
!insertmacro SKIPPED_IN_UPDATE
!define MUI_FINISHPAGE_TEXT "$(FINISH_TEXT)"
!define MUI_FINISHPAGE_RUN "$INSTDIR\upreel.exe"
!insertmacro MUI_PAGE_FINISH

!define MUI_PAGE_CUSTOMFUNCTION_LEAVE un.LeaveConfirmPage
!insertmacro MUI_UNPAGE_CONFIRM
UninstPage custom un.DataPage un.LeaveDataPage
!insertmacro MUI_UNPAGE_INSTFILES

!insertmacro MUI_LANGUAGE English
!insertmacro MUI_LANGUAGE SimpChinese
!include setup_text.nsh
!include "${TYPES}" ; EACH_FILM_TYPE, by build_setup.py from what the program opens
!include setup_lib.nsh
!insertmacro SHARED ""
!insertmacro SHARED "un."

VIProductVersion "${VERSION4}"
VIAddVersionKey /LANG=${LANG_ENGLISH} ProductName "Upreel"
VIAddVersionKey /LANG=${LANG_ENGLISH} ProductVersion "${VERSION}"
VIAddVersionKey /LANG=${LANG_ENGLISH} FileVersion "${VERSION}"
VIAddVersionKey /LANG=${LANG_ENGLISH} FileDescription "Upreel Setup"
VIAddVersionKey /LANG=${LANG_ENGLISH} CompanyName "The Upreel developers"
VIAddVersionKey /LANG=${LANG_ENGLISH} LegalCopyright "The Upreel developers"

Section "!Upreel" PART_PROGRAM
  SectionIn RO
  Call CheckFolder
  ${If} $Status = 0
    Call CloseAll
  ${EndIf}
  Call StopIfFailed
  Call ClaimFolder
  Call StopIfFailed
  StrCpy $Phase 1
  SetOutPath "$INSTDIR\${NEW}"
  SetDetailsPrint textonly
  File /r "${PAYLOAD}"
  SetOutPath "$INSTDIR"
  DetailPrint "$(MOVING)"
  SetDetailsPrint none
  Call PutInPlace
  Call StopIfFailed
  Call WriteEntry
  SetDetailsPrint both
SectionEnd

Section "$(PART_STARTMENU)" PART_STARTMENU
  CreateShortCut "$SMPROGRAMS\Upreel.lnk" "$INSTDIR\upreel.exe"
SectionEnd

Section /o "$(PART_DESKTOP)" PART_DESKTOP
  CreateShortCut "$DESKTOP\Upreel.lnk" "$INSTDIR\upreel.exe"
SectionEnd

Section "$(PART_OPENWITH)" PART_OPENWITH
  !insertmacro OPENER "Applications\upreel.exe"
  WriteRegStr HKCU "${CLASSES}\Applications\upreel.exe" "FriendlyAppName" "Upreel"
  WriteRegStr HKCU "${CLASSES}\Upreel.Film" "" "$(KIND_FILM)"
  !insertmacro OPENER "Upreel.Film"
  WriteRegStr HKCU "${CLASSES}\Upreel.Latent" "" "$(KIND_LATENT)"
  !insertmacro OPENER "Upreel.Latent"
  !insertmacro EACH_FILM_TYPE OPENED_BY Upreel.Film
  !insertmacro OPENED_BY .latent Upreel.Latent
SectionEnd

Section -TellExplorer
  ${RefreshShellIcons}
SectionEnd

!insertmacro MUI_FUNCTION_DESCRIPTION_BEGIN
  !insertmacro MUI_DESCRIPTION_TEXT ${PART_PROGRAM} $(ABOUT_PROGRAM)
  !insertmacro MUI_DESCRIPTION_TEXT ${PART_STARTMENU} $(ABOUT_STARTMENU)
  !insertmacro MUI_DESCRIPTION_TEXT ${PART_DESKTOP} $(ABOUT_DESKTOP)
  !insertmacro MUI_DESCRIPTION_TEXT ${PART_OPENWITH} $(ABOUT_OPENWITH)
!insertmacro MUI_FUNCTION_DESCRIPTION_END

Section Uninstall
  StrCpy $Folder $INSTDIR
  Call un.EnsureClosed
  Call un.StopIfFailed
  SetOutPath $TEMP ; nobody stays in a folder that goes
  SetDetailsPrint none
  File "/oname=$PLUGINSDIR\own.files" "${FILES}"
  StrCpy $From $INSTDIR
  StrCpy $ListFile "$PLUGINSDIR\own.files"
  Call un.DeleteListed
  StrCpy $ListFile "$INSTDIR\${LIST}" ; has more when a setup was cut off
  Call un.DeleteListed
  !insertmacro REMOVE_TREE un. "$INSTDIR\${NEW}"
  !insertmacro REMOVE_TREE un. "$INSTDIR\${OLD}"
  Delete "$INSTDIR\${LIST}"
  Delete "$INSTDIR\${UNINSTALLER}"
  RMDir "$INSTDIR"
  ReadRegStr $0 HKCU "${UNINSTALL_KEY}" "InstallLocation"
  ${If} $0 == $INSTDIR ; else another copy is the installed one
  ${OrIf} $0 == ""
    Call un.Unregister
    DeleteRegKey HKCU "${UNINSTALL_KEY}"
    Call un.RemoveData
  ${EndIf}
  Call un.ForgetPrograms
  SetDetailsPrint both
  ${RefreshShellIcons}
  ${If} $Failed != ""
    StrCpy $Status 17
    StrCpy $Problem "$(PROBLEM_LEFT)"
    Call un.StopIfFailed
  ${EndIf}
  ${If} ${FileExists} "$INSTDIR\*.*"
    DetailPrint "$(KEPT_FILES)"
  ${EndIf}
SectionEnd

!include setup_install.nsh
!include setup_remove.nsh
