; Functions of the uninstaller.

!macro OFFER NAME BOX TEXT
  ${If} ${FileExists} "$LOCALAPPDATA\Upreel\${NAME}\*.*"
    ${GetSize} "$LOCALAPPDATA\Upreel\${NAME}" "/S=0M" $0 $1 $2
    ${NSD_CreateCheckBox} 0 $Boxes 100% 12u "${TEXT}"
    Pop ${BOX}
    Call un.NextLine
  ${EndIf}
!macroend

!macro READ_BOX BOX
  ${If} ${BOX} <> 0
    ${NSD_GetState} ${BOX} ${BOX}
  ${EndIf}
!macroend

Function un.onInit
  SetRegView 64
  InitPluginsDir
  Call un.SetDefaults
  Call un.ReadSwitches
  Call un.QuitIfFailed
  StrCpy $ModelsBox 0
  StrCpy $RuntimesBox 0
  StrCpy $SettingsBox 0
  ${If} ${Silent}
  ${AndIf} $Purges = 1
    StrCpy $ModelsBox 1
    StrCpy $RuntimesBox 1
    StrCpy $SettingsBox 1
  ${EndIf}
FunctionEnd

Function un.LeaveConfirmPage
  StrCpy $Folder $INSTDIR
  Call un.EnsureClosed
  ${If} $Status <> 0
    StrCpy $Status 0
    Abort
  ${EndIf}
FunctionEnd

; Offer to remove models, runtimes and settings that exist. Nothing is ticked.
Function un.DataPage
  ${IfNot} ${FileExists} "$LOCALAPPDATA\Upreel\*.*"
    Abort
  ${EndIf}
  !insertmacro MUI_HEADER_TEXT "$(DATA_TITLE)" "$(DATA_SUBTITLE)"
  nsDialogs::Create 1018
  Pop $0
  ${NSD_CreateLabel} 0 0 100% 36u "$(DATA_WHERE)"
  Pop $0
  StrCpy $Boxes "44u"
  !insertmacro OFFER models $ModelsBox "$(DATA_MODELS)"
  !insertmacro OFFER runtimes $RuntimesBox "$(DATA_RUNTIMES)"
  ${NSD_CreateCheckBox} 0 $Boxes 100% 12u "$(DATA_SETTINGS)"
  Pop $SettingsBox
  nsDialogs::Show
FunctionEnd

Function un.NextLine
  StrCpy $Boxes $Boxes -1
  IntOp $Boxes $Boxes + 18
  StrCpy $Boxes "$Boxesu"
FunctionEnd

Function un.LeaveDataPage
  !insertmacro READ_BOX $ModelsBox
  !insertmacro READ_BOX $RuntimesBox
  !insertmacro READ_BOX $SettingsBox
FunctionEnd

Function un.StopIfFailed
  ${If} $Status <> 0
    SetErrorLevel $Status
    ${If} $Status <> 1
      MessageBox MB_OK|MB_ICONSTOP "$Problem" /SD IDOK
    ${EndIf}
    SetDetailsPrint both
    Abort $Problem
  ${EndIf}
FunctionEnd

; Remove the user's data: caches always, results never, the rest as ticked.
Function un.RemoveData
  StrCpy $9 "\\?\$LOCALAPPDATA\Upreel"
  !insertmacro REMOVE_TREE un. "$9\Cache"
  !insertmacro REMOVE_TREE un. "$9\window.lock"
  ${If} $ModelsBox = 1
    !insertmacro REMOVE_TREE un. "$9\models"
  ${EndIf}
  ${If} $RuntimesBox = 1
    !insertmacro REMOVE_TREE un. "$9\runtimes"
  ${EndIf}
  ${If} $SettingsBox = 1
    FindFirst $0 $1 "$9\*.*"
    ${DoUntil} $1 == ""
      ${If} $1 != "."
      ${AndIf} $1 != ".."
      ${AndIf} $1 != "models"
      ${AndIf} $1 != "runtimes"
      ${AndIf} $1 != "results"
        !insertmacro REMOVE_TREE un. "$9\$1"
      ${EndIf}
      FindNext $0 $1
    ${Loop}
    FindClose $0
  ${EndIf}
  RMDir "$LOCALAPPDATA\Upreel"
FunctionEnd
